//! One run of the guest: QEMU's command line, the payload's way in and the result's way out.
//!
//! The payload is packed as a raw tar onto a read-only disk. The guest's output comes line by line
//! over the second serial port; the first carries the kernel's console, which goes to a file and
//! is shown only if the guest fails to deliver. The exit status is read from a tar that the guest
//! writes to the result disk, because QEMU's own status says nothing about the payload.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::image::{Image, output};
use super::scratch::{Scratch, folder};
use super::sockets::Sockets;

/// Memory of a NUMA node, in MiB.
const NODE_MEMORY_MIB: u32 = 1024;

/// Room for what the payload leaves behind; the file is sparse.
const RESULT_SIZE_BYTES: u64 = 256 << 20;

/// Long enough for the guest tests on a busy machine.
pub(super) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(900);

/// What the kernel says when it has met an instruction half patched.
const EMULATION_FAULT: &str = "Oops: int3";

/// How to say that it happened.
pub(super) const STARTED_AGAIN: &str = "# the guest's kernel failed; it is started again";

/// How often the guest is started at most.
const ATTEMPTS: u32 = 3;

/// Services that would only delay the payload.
const MASKED: [&str; 3] = [
    "systemd-tmpfiles-setup-dev.service",
    "systemd-sysusers.service",
    "ldconfig.service",
];

/// What runs the guest's processors.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Accelerator {
    /// Emulation: works everywhere.
    Tcg,
    /// `/dev/kvm`, for hosts where it can boot a stock kernel.
    Kvm,
}

/// A machine to run a payload on.
pub(crate) struct Machine {
    pub(crate) sockets: Sockets,
    pub(crate) accelerator: Accelerator,
    /// When the guest has not finished by then it is stopped, and the run has failed.
    pub(crate) timeout: Duration,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            sockets: Sockets::DEFAULT,
            accelerator: Accelerator::Tcg,
            timeout: DEFAULT_TIMEOUT,
        }
    }
}

/// What is heard of a run.
pub(super) enum Progress<'a> {
    /// A line that the payload wrote.
    Line(&'a str),
    /// The emulation failed: what was heard so far counts for nothing, the payload begins again.
    StartedAgain,
}

/// What came of starting the guest once.
enum Attempt {
    Finished {
        status: u8,
    },
    /// With the end of the console.
    EmulationFault(String),
}

/// What came out of a run.
pub(super) struct Outcome {
    pub(super) status: u8,
    pub(super) elapsed: Duration,
}

impl Machine {
    /// Runs `payload/run.sh` as root in a fresh copy of the image; `on_progress` hears of each line
    /// of its output as it comes.
    ///
    /// Several processors are emulated at once. Now and then, under load, one meets an instruction
    /// that the kernel has half patched, and the kernel stops with a trap that it knows nothing of,
    /// mostly while it boots. That says nothing about the payload: it is run again, a few times.
    pub(super) fn run(
        &self,
        image: &Image,
        payload: &Path,
        mut on_progress: impl FnMut(Progress<'_>),
    ) -> Result<Outcome> {
        let started = Instant::now();
        if !payload.join("run.sh").is_file() {
            bail!("{} has no run.sh for the guest to run", payload.display());
        }
        let mut attempts = 0;
        loop {
            attempts += 1;
            match self.attempt(image, payload, &mut on_progress)? {
                Attempt::Finished { status } => {
                    return Ok(Outcome {
                        status,
                        elapsed: started.elapsed(),
                    });
                }
                Attempt::EmulationFault(_) if attempts < ATTEMPTS => {
                    on_progress(Progress::StartedAgain);
                }
                Attempt::EmulationFault(console) => bail!(
                    "the guest's kernel failed {attempts} times; the end of its console:\n{console}"
                ),
            }
        }
    }

    fn attempt(
        &self,
        image: &Image,
        payload: &Path,
        on_progress: &mut impl FnMut(Progress<'_>),
    ) -> Result<Attempt> {
        let run = RunFolder(Scratch::create("run")?);
        output(
            Command::new("tar")
                .arg("-cf")
                .arg(run.file("payload.tar"))
                .arg("-C")
                .arg(payload)
                .args(["--owner=root:0", "--group=root:0", "."]),
        )?;
        File::create(run.file("result.raw"))
            .and_then(|file| file.set_len(RESULT_SIZE_BYTES))
            .with_context(|| format!("create {}", run.file("result.raw").display()))?;

        let mut qemu = self
            .command(image, &run)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("start qemu-system-x86_64")?;
        let mut began = false;
        let finished = stream(&mut qemu, Instant::now() + self.timeout, |line| {
            began = true;
            on_progress(Progress::Line(line));
        });
        if !matches!(finished, Ok(Finished::PoweredOff)) {
            let _ = qemu.kill();
        }
        let status = qemu.wait().context("wait for qemu-system-x86_64")?;
        match finished? {
            Finished::TimedOut => bail!(
                "the guest had not finished after {:.0?}; the end of its console:\n{}",
                self.timeout,
                run.keep_console_tail()
            ),
            Finished::PoweredOff if !status.success() => {
                bail!("qemu-system-x86_64 failed ({status})")
            }
            Finished::PoweredOff => {}
        }
        if let Some(status) = run.payload_status() {
            return Ok(Attempt::Finished { status });
        }
        if !began || run.console_text().contains(EMULATION_FAULT) {
            return Ok(Attempt::EmulationFault(run.keep_console_tail()));
        }
        bail!(
            "the guest stopped without a result; the end of its console:\n{}",
            run.keep_console_tail()
        )
    }

    fn command(&self, image: &Image, run: &RunFolder) -> Command {
        let Sockets {
            sockets,
            cores,
            threads,
        } = self.sockets;
        // Should this program be killed, the guest must not run on.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "qemu-system-x86_64"]);
        match self.accelerator {
            // Kernel 6.12 double-faults early with cx16 under QEMU 7.2; the vendor makes the guest
            // derive threads and one last-level cache for each socket.
            Accelerator::Tcg => command
                .args(["-accel", "tcg,thread=multi"])
                .args(["-cpu", "max,vendor=GenuineIntel,-cx16"]),
            Accelerator::Kvm => command.args(["-accel", "kvm", "-cpu", "host"]),
        };
        command
            .args([
                "-machine",
                "q35",
                "-nodefaults",
                "-no-user-config",
                "-no-reboot",
            ])
            .args(["-display", "none", "-monitor", "none"])
            .arg("-smp")
            .arg(format!(
                "{},sockets={sockets},cores={cores},threads={threads}",
                self.sockets.cpus()
            ))
            .arg("-m")
            .arg((sockets * NODE_MEMORY_MIB).to_string());
        for node in 0..sockets {
            let first = node * self.sockets.cpus_of_socket();
            let last = first + self.sockets.cpus_of_socket() - 1;
            command
                .arg("-object")
                .arg(format!(
                    "memory-backend-ram,id=m{node},size={NODE_MEMORY_MIB}M"
                ))
                .arg("-numa")
                .arg(format!(
                    "node,nodeid={node},cpus={first}-{last},memdev=m{node}"
                ));
        }
        for from in 0..sockets {
            for to in (0..sockets).filter(|&to| to != from) {
                // Sockets on a ring: a neighbour is nearer than the one across.
                let ring = from.abs_diff(to).min(sockets - from.abs_diff(to));
                let distance = 10 + 6 * ring;
                command
                    .arg("-numa")
                    .arg(format!("dist,src={from},dst={to},val={distance}"));
            }
        }
        let masked: String = MASKED
            .iter()
            .map(|unit| format!(" systemd.mask={unit}"))
            .collect();
        command
            .args([
                "-chardev".into(),
                format!("file,id=console,path={}", run.console().display()),
            ])
            .args(["-serial", "chardev:console"])
            .args([
                "-chardev",
                "stdio,id=payload,signal=off",
                "-serial",
                "chardev:payload",
            ])
            .arg("-kernel")
            .arg(image.kernel())
            .arg("-initrd")
            .arg(image.initrd())
            .arg("-append")
            .arg(format!(
                "root=/dev/vda rw console=ttyS0 quiet maxcpus=1 panic=-1 mitigations=off tsc=reliable \
                 systemd.unified_cgroup_hierarchy=1 systemd.show_status=no{masked}"
            ));
        drive(&mut command, "root", &image.disk(), "snapshot=on");
        drive(
            &mut command,
            "payload",
            &run.file("payload.tar"),
            "readonly=on",
        );
        drive(
            &mut command,
            "result",
            &run.file("result.raw"),
            "readonly=off",
        );
        command
            .args(["-object", "rng-random,id=rng,filename=/dev/urandom"])
            .args(["-device", "virtio-rng-pci,rng=rng"]);
        command
    }
}

fn drive(command: &mut Command, serial: &str, path: &Path, option: &str) {
    command
        .arg("-drive")
        .arg(format!(
            "file={},format=raw,if=none,id={serial},{option}",
            path.display()
        ))
        .arg("-device")
        .arg(format!("virtio-blk-pci,drive={serial},serial={serial}"));
}

enum Finished {
    PoweredOff,
    TimedOut,
}

/// Hands on the payload's output until QEMU closes it, that is, until the guest is off.
fn stream(qemu: &mut Child, deadline: Instant, mut on_line: impl FnMut(&str)) -> Result<Finished> {
    let stdout = qemu
        .stdout
        .take()
        .context("qemu-system-x86_64 has no standard output")?;
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).split(b'\n') {
            let Ok(line) = line else { return };
            // The receiver is gone once the deadline has passed: nobody listens any more.
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                let line = String::from_utf8_lossy(&line);
                on_line(line.trim_end_matches('\r'));
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(Finished::PoweredOff),
            Err(RecvTimeoutError::Timeout) => return Ok(Finished::TimedOut),
        }
    }
}

/// The files of one run.
struct RunFolder(Scratch);

impl RunFolder {
    fn file(&self, name: &str) -> PathBuf {
        self.0.file(name)
    }

    fn console(&self) -> PathBuf {
        self.file("console.log")
    }

    /// The exit status that the payload left on the result disk, if it got that far.
    fn payload_status(&self) -> Option<u8> {
        let mut tar = Command::new("tar");
        tar.arg("-xOf").arg(self.file("result.raw")).arg("./status");
        output(&mut tar).ok()?.trim().parse().ok()
    }

    fn console_text(&self) -> String {
        let text = fs::read(self.console()).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    }

    /// The end of the console, which is kept beside the image for a closer look.
    fn keep_console_tail(&self) -> String {
        let kept = folder().join("console.log");
        let _ = fs::copy(self.console(), &kept);
        let text = self.console_text();
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines[lines.len().saturating_sub(30)..].join("\n");
        format!("{tail}\n(all of it: {})", kept.display())
    }
}
