"use strict";
// Arrow keys go from program to program, Home and End to the first and the last.
document.addEventListener("keydown", (event) => {
  const programs = [...document.querySelectorAll("article.program")];
  const now = programs.indexOf(document.activeElement);
  if (now < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  let next = now + step;
  if (event.key === "Home") next = 0;
  else if (event.key === "End") next = programs.length - 1;
  else if (!step) return;
  event.preventDefault();
  programs[Math.min(Math.max(next, 0), programs.length - 1)].focus();
});
