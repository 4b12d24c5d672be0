// Each second the parts that have changed are replaced. What has the focus keeps it, what is open stays open, and what is
// selected is not touched.
const replace = (old, fresh) => {
  if (old.innerHTML === fresh.innerHTML) return;
  const open = [...old.querySelectorAll("details[open]")].map((details) => details.id);
  const focused = old.contains(document.activeElement) && document.activeElement;
  const focus = focused && (focused.id || focused.parentElement.id);
  const isSummary = focused && focused.localName === "summary";
  const left = [...old.querySelectorAll(".scroll")].map((scroll) => scroll.scrollLeft);
  old.innerHTML = fresh.innerHTML;
  open.forEach((id) => document.getElementById(id)?.setAttribute("open", ""));
  old.querySelectorAll(".scroll").forEach((scroll, place) => (scroll.scrollLeft = left[place] ?? 0));
  const again = focus && document.getElementById(focus);
  if (again) (isSummary ? again.querySelector("summary") : again).focus({ preventScroll: true });
};
const refresh = async () => {
  if (!document.hidden && getSelection().isCollapsed) {
    try {
      // An answer that does not come must not end the updates.
      const signal = AbortSignal.timeout(5000);
      const answer = await fetch(location.pathname, { cache: "no-store", signal });
      if (!answer.ok) throw new Error(answer.statusText);
      const text = await answer.text();
      // Without the style, which has the nonce of another answer.
      const content = text.slice(text.indexOf("<main>"), text.lastIndexOf("</main>"));
      const fresh = new DOMParser().parseFromString(content, "text/html");
      const parts = [...fresh.querySelectorAll("main > [id]")];
      for (const part of parts) {
        const old = document.getElementById(part.id);
        if (old) replace(old, part);
      }
      const here = [...document.querySelectorAll("main > [id]")].map((part) => part.id);
      if (here.join() !== parts.map((part) => part.id).join()) {
        document.querySelector("main").innerHTML = fresh.querySelector("main").innerHTML;
      }
      document.title = `mapper: ${fresh.querySelector("h1").textContent}`;
      document.body.classList.remove("old");
    } catch {
      if (!document.body.classList.contains("old")) {
        document.body.classList.add("old");
        document.title = "not up to date";
        const line = document.querySelector(".eyebrow") ?? document.querySelector("h1");
        if (line) {
          line.textContent =
            "not up to date: `mapper page` has ended; start it again and open its new address";
        }
      }
    }
  }
  setTimeout(refresh, 1000);
};
setTimeout(refresh, 1000);
