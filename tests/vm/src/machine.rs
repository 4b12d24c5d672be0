//! One run of the guest: QEMU's command line, the payload's way in and the result's way out.
//!
//! The payload is a raw tar on a read-only disk. The guest's output comes line by line over the second serial port; the first
//! carries the kernel's console, which goes to a file and is shown only if the guest fails. The exit status is read from a
//! tar that the guest writes to the result disk; QEMU's own status does not contain it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::unistd::Pid;

use super::image::{Kernel, disk, output};
use super::scratch::{Scratch, folder};
use super::sockets::Sockets;

mod dilation;

pub(crate) use dilation::Dilation;

/// Memory of a NUMA node, in MiB.
const NODE_MEMORY_MIB: u32 = 1024;
/// Room for the payload's results; the file is sparse.
const RESULT_SIZE_BYTES: u64 = 256 << 20;
/// Seconds after which a run hangs: the guest tests take 600 to 900, as the machine's speed is.
const DEFAULT_TIMEOUT_S: u64 = 1800;
/// The kernel's message after an instruction that was half patched.
const EMULATION_FAULT: &str = "Oops: int3";
/// The file of the guest's console.
const CONSOLE: &str = "console.log";
/// The most starts of the guest.
const ATTEMPTS: u32 = 3;
/// The line that stands for a new start: earlier output is void, the payload begins again.
pub(super) const STARTED_AGAIN: &str = "# the guest's kernel failed; it is started again";
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

// A machine to run a payload on; the comments of its fields are help.
#[derive(clap::Args)]
pub(crate) struct Machine {
    /// Sockets, cores of a socket and threads of a core.
    #[arg(long, default_value_t = Sockets::DEFAULT, value_name = "SOCKETSxCORESxTHREADS")]
    pub(super) topology: Sockets,
    /// Seconds of the guest after which it is stopped and the run has failed.
    #[arg(long, default_value_t = DEFAULT_TIMEOUT_S, value_name = "SECONDS")]
    pub(super) timeout: u64,
    /// How the guest's processors are run.
    #[arg(long, value_enum, default_value_t = Accelerator::Tcg)]
    pub(super) accel: Accelerator,
    /// Slow the guest's clock so many times and give its processors equal shares; auto: as many times as it has more
    /// processors than the host. Emulation only.
    #[arg(long, value_name = "auto|TIMES")]
    pub(super) dilate: Option<Dilation>,
    #[command(flatten)]
    pub(super) kernel: Kernel,
}

/// A line of the payload's output.
pub(super) struct Line<'a> {
    pub(super) text: &'a str,
    /// The CPU time of the host that each of the guest's processors has used so far.
    pub(super) cpu_times: Vec<Duration>,
}

/// The end of the console after a failure of the emulation.
struct EmulationFault(String);

impl Machine {
    /// Runs `payload/run.sh` as root in a fresh copy of the image, passes its output to `on_line`, puts what it has left in
    /// `/result` into the folder `results`, and returns its status.
    ///
    /// Several processors are emulated at once. Sometimes, under load, one executes an instruction that the kernel has half
    /// patched, and the kernel stops, mostly while it boots. That is not the payload's fault: it is run again, a few times.
    pub(super) fn run(
        &self,
        image: &Path,
        payload: &Path,
        results: Option<&Path>,
        mut on_line: impl FnMut(&Line<'_>),
    ) -> Result<u8> {
        if !payload.join("run.sh").is_file() {
            bail!("{} has no run.sh for the guest to run", payload.display());
        }
        if self.dilate.is_some() && self.accel != Accelerator::Tcg {
            bail!("--dilate slows an emulated guest; leave out --accel, or --dilate");
        }
        let mut attempts = 1;
        loop {
            match self.attempt(image, payload, results, &mut on_line)? {
                Ok(status) => return Ok(status),
                Err(EmulationFault(_)) if attempts < ATTEMPTS => on_line(&Line {
                    text: STARTED_AGAIN,
                    cpu_times: Vec::new(),
                }),
                Err(EmulationFault(console)) => bail!(
                    "the guest's kernel failed {attempts} times; the end of its console:\n{console}"
                ),
            }
            attempts += 1;
        }
    }

    fn attempt(
        &self,
        image: &Path,
        payload: &Path,
        results: Option<&Path>,
        on_line: &mut impl FnMut(&Line<'_>),
    ) -> Result<Result<u8, EmulationFault>> {
        let run = Scratch::create("run")?;
        let mut tar = Command::new("tar");
        tar.args(["--owner=root:0", "--group=root:0", "-cf"]);
        output(
            tar.arg(run.file("payload.tar"))
                .arg("-C")
                .arg(payload)
                .arg("."),
        )?;
        let result = run.file("result.raw");
        File::create(&result)
            .and_then(|file| file.set_len(RESULT_SIZE_BYTES))
            .with_context(|| format!("create {}", result.display()))?;
        let mut command = self.command(image, &run)?;
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut qemu = command.spawn().context("start qemu-system-x86_64")?;
        let mut began = false;
        let timeout = Duration::from_secs(self.timeout).mul_f64(self.times_slower());
        let pid = Pid::from_raw(qemu.id().cast_signed());
        let powered_off = stream(&mut qemu, Instant::now() + timeout, |line| {
            if !began && self.dilate.is_some() {
                dilation::booted(pid);
            }
            began = true;
            on_line(&Line {
                text: line,
                cpu_times: cpu_times(pid),
            });
        });
        if !matches!(powered_off, Ok(true)) {
            let _ = qemu.kill();
        }
        let status = qemu.wait().context("wait for qemu-system-x86_64")?;
        if !powered_off? {
            bail!(
                "the guest had not finished after {timeout:.0?}; the end of its console:\n{}",
                keep_console_tail(&run)
            );
        }
        if !status.success() {
            bail!("qemu-system-x86_64 failed ({status})");
        }
        if let Some(status) = payload_status(&run) {
            if let Some(results) = results {
                let mut tar = Command::new("tar");
                tar.arg("-xf").arg(run.file("result.raw"));
                output(tar.arg("-C").arg(results))?;
            }
            return Ok(Ok(status));
        }
        if !began || console_text(&run).contains(EMULATION_FAULT) {
            return Ok(Err(EmulationFault(keep_console_tail(&run))));
        }
        bail!(
            "the guest stopped without a result; the end of its console:\n{}",
            keep_console_tail(&run)
        )
    }

    /// How many times slower than the host's its clock runs.
    pub(super) fn times_slower(&self) -> f64 {
        self.dilate
            .map_or(1.0, |dilation| dilation.times(self.topology))
    }

    fn command(&self, image: &Path, run: &Scratch) -> Result<Command> {
        let Sockets {
            sockets,
            cores,
            threads,
        } = self.topology;
        // If this program is killed, the guest must end, too.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        if self.dilate.is_some() {
            command.args(dilation::words(self.times_slower(), run)?);
        }
        command.args(["qemu-system-x86_64", "-name", "guest,debug-threads=on"]);
        match self.accel {
            // Kernel 6.12 double-faults early with cx16 under QEMU 7.2; the vendor makes the guest
            // derive threads and one last-level cache for each socket.
            Accelerator::Tcg => command
                .args(["-accel", "tcg,thread=multi"])
                .args(["-cpu", "max,vendor=GenuineIntel,-cx16"]),
            Accelerator::Kvm => command.args(["-accel", "kvm", "-cpu", "host"]),
        };
        let mut words = String::from(
            "-machine q35 -nodefaults -no-user-config -no-reboot -display none -monitor none",
        );
        let (cpus, memory) = (self.topology.cpus(), sockets * NODE_MEMORY_MIB);
        words += &format!(" -smp {cpus},sockets={sockets},cores={cores},threads={threads}");
        words += &format!(" -m {memory}");
        for node in 0..sockets {
            let first = node * self.topology.cpus_of_socket();
            let last = first + self.topology.cpus_of_socket() - 1;
            words += &format!(" -object memory-backend-ram,id=m{node},size={NODE_MEMORY_MIB}M");
            words += &format!(" -numa node,nodeid={node},cpus={first}-{last},memdev=m{node}");
        }
        for from in 0..sockets {
            for to in (0..sockets).filter(|&to| to != from) {
                // Sockets on a ring: a neighbour is nearer than the one across.
                let ring = from.abs_diff(to).min(sockets - from.abs_diff(to));
                words += &format!(" -numa dist,src={from},dst={to},val={}", 10 + 6 * ring);
            }
        }
        command.args(words.split(' '));
        let masked = MASKED.map(|unit| format!(" systemd.mask={unit}")).concat();
        command
            .arg("-chardev")
            .arg(format!("file,id=console,path={}", run.file(CONSOLE).display()))
            .args(["-serial", "chardev:console"])
            .args(["-chardev", "stdio,id=payload,signal=off"])
            .args(["-serial", "chardev:payload"])
            .arg("-kernel")
            .arg(image.join("vmlinuz"))
            .arg("-initrd")
            .arg(image.join("initrd"))
            .arg("-append")
            .arg(format!(
                "root=/dev/vda rw console=ttyS0 quiet maxcpus=1 panic=-1 mitigations=off tsc=reliable \
                 systemd.unified_cgroup_hierarchy=1 systemd.show_status=no{masked}"
            ));
        for (serial, path, option) in [
            ("root", disk(image), "snapshot=on"),
            ("payload", run.file("payload.tar"), "readonly=on"),
            ("result", run.file("result.raw"), "readonly=off"),
        ] {
            let path = path.display();
            let drive = format!("file={path},format=raw,if=none,id={serial},{option}");
            let device = format!("virtio-blk-pci,drive={serial},serial={serial}");
            command.args(["-drive", &drive, "-device", &device]);
        }
        command
            .args(["-object", "rng-random,id=rng,filename=/dev/urandom"])
            .args(["-device", "virtio-rng-pci,rng=rng"]);
        Ok(command)
    }
}

/// Passes on the payload's output until QEMU closes it, which means that the guest is off; returns whether it did in time.
fn stream(qemu: &mut Child, deadline: Instant, mut on_line: impl FnMut(&str)) -> Result<bool> {
    let stdout = qemu.stdout.take();
    let stdout = stdout.context("qemu-system-x86_64 has no standard output")?;
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).split(b'\n') {
            let Ok(line) = line else { return };
            // The receiver is gone once the deadline has passed.
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
            Err(RecvTimeoutError::Disconnected) => return Ok(true),
            Err(RecvTimeoutError::Timeout) => return Ok(false),
        }
    }
}

/// CPU time of QEMU's threads for virtual CPUs; none once it has ended.
fn cpu_times(qemu: Pid) -> Vec<Duration> {
    let threads = procfs::process::Process::new(qemu.as_raw()).and_then(|process| process.tasks());
    let stats = threads.into_iter().flatten().flatten();
    let stats = stats.filter_map(|thread| thread.stat().ok());
    let of_cpus = stats.filter(|stat| stat.comm.ends_with("/TCG"));
    let ticks = of_cpus.map(|stat| stat.utime + stat.stime);
    ticks
        .map(|ticks| Duration::from_secs_f64(ticks as f64 / procfs::ticks_per_second() as f64))
        .collect()
}

/// The payload's exit status on the result disk, if there is one.
fn payload_status(run: &Scratch) -> Option<u8> {
    let mut tar = Command::new("tar");
    tar.arg("-xOf").arg(run.file("result.raw")).arg("./status");
    output(&mut tar).ok()?.trim().parse().ok()
}

fn console_text(run: &Scratch) -> String {
    let text = fs::read(run.file(CONSOLE)).unwrap_or_default();
    String::from_utf8_lossy(&text).into_owned()
}

/// The end of the console, which is kept beside the image.
fn keep_console_tail(run: &Scratch) -> String {
    let kept = folder().join(CONSOLE);
    let _ = fs::copy(run.file(CONSOLE), &kept);
    let text = console_text(run);
    let lines: Vec<&str> = text.lines().collect();
    let tail = lines[lines.len().saturating_sub(30)..].join("\n");
    format!("{tail}\n(all of it: {})", kept.display())
}
