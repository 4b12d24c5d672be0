//! A plugin for Slurm (SPANK): `--qos-share=0.95` of `sbatch`, `salloc` and `srun` is the promise of the job.
//!
//! The command that the user gives checks the share. On each node the plugin sets `MAPPER_QOS` for the tasks of the job, by
//! which the TaskProlog (`deploy/slurm`) gives the job its promise.
//!
//! *Invariants.* Nothing here panics: a panic would end Slurm's program. Slurm calls a plugin from one thread; the lock is there
//! because Rust asks for one.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};

use mapper_model::Qos;

const SUCCESS: c_int = 0;
const FAILED: c_int = -1;

/// By these Slurm knows a plugin.
#[unsafe(no_mangle)]
pub static plugin_name: [u8; 7] = *b"mapper\0";
/// See [`plugin_name`].
#[unsafe(no_mangle)]
pub static plugin_type: [u8; 6] = *b"spank\0";

/// Slurm loads the plugin if the release is its own.
#[unsafe(no_mangle)]
pub static plugin_version: u32 = number_of(match option_env!("MAPPER_SLURM_RELEASE") {
    Some(release) => release,
    None => "22.05",
});

/// The number of a release such as `22.05`, as Slurm writes it.
const fn number_of(release: &str) -> u32 {
    let bytes = release.as_bytes();
    let (mut parts, mut part, mut place) = ([0u32; 2], 0, 0);
    while place < bytes.len() {
        match bytes[place] {
            b'.' if part == 0 => part = 1,
            digit @ b'0'..=b'9' => parts[part] = parts[part] * 10 + (digit - b'0') as u32,
            _ => panic!("MAPPER_SLURM_RELEASE is not a release such as 22.05"),
        }
        place += 1;
    }
    assert!(
        part == 1,
        "MAPPER_SLURM_RELEASE is not a release such as 22.05"
    );
    parts[0] << 16 | parts[1] << 8
}

/// Slurm's `spank_t`.
type Spank = *mut c_void;

type Callback = extern "C" fn(value: c_int, argument: *const c_char, remote: c_int) -> c_int;

/// Slurm's `struct spank_option`.
#[repr(C)]
struct SpankOption {
    name: *const c_char,
    argument: *const c_char,
    usage: *const c_char,
    has_argument: c_int,
    value: c_int,
    callback: Callback,
}

unsafe extern "C" {
    fn spank_option_register(spank: Spank, option: *const SpankOption) -> c_int;
    fn spank_setenv(
        spank: Spank,
        name: *const c_char,
        value: *const c_char,
        overwrite: c_int,
    ) -> c_int;
}

/// The share that was given, as it was.
static SHARE: Mutex<Option<CString>> = Mutex::new(None);

/// Slurm has read the option, of the command line or, on a node, of the job.
extern "C" fn share_given(_: c_int, argument: *const c_char, remote: c_int) -> c_int {
    if argument.is_null() {
        return FAILED;
    }
    // SAFETY: Slurm gives the option's argument, a string that ends with a zero and lives until this returns; it is not null.
    let given = unsafe { CStr::from_ptr(argument) };
    let share = given.to_string_lossy();
    if let Err(error) = share.parse::<Qos>() {
        // Slurm's own message says only that it is invalid. On a node nobody would read this.
        if remote == 0 {
            let _unheard = writeln!(std::io::stderr(), "mapper: --qos-share={share}: {error}");
        }
        return FAILED;
    }
    *SHARE.lock().unwrap_or_else(PoisonError::into_inner) = Some(given.to_owned());
    SUCCESS
}

/// Slurm has loaded the plugin: in the user's command and on each node.
///
/// # Safety
///
/// To be called by Slurm, with its handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slurm_spank_init(
    spank: Spank,
    _count: c_int,
    _arguments: *const *const c_char,
) -> c_int {
    let option = SpankOption {
        name: c"qos-share".as_ptr(),
        argument: c"SHARE".as_ptr(),
        usage: c"promise this share of the fair-share speed on each node, such as 0.85 or 85%"
            .as_ptr(),
        has_argument: 1,
        value: 0,
        callback: share_given,
    };
    // SAFETY: the handle is Slurm's; the option is laid out as Slurm's, and Slurm copies what it has. An error means that the
    // option is not known there; the job runs.
    let _unknown = unsafe { spank_option_register(spank, &raw const option) };
    SUCCESS
}

/// On a node, before the tasks of the job or step start.
///
/// # Safety
///
/// To be called by Slurm, with its handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slurm_spank_user_init(
    spank: Spank,
    _count: c_int,
    _arguments: *const *const c_char,
) -> c_int {
    let share = SHARE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(share) = share.as_deref() {
        // SAFETY: the handle is Slurm's, and both strings end with a zero; Slurm copies them.
        let _none = unsafe { spank_setenv(spank, c"MAPPER_QOS".as_ptr(), share.as_ptr(), 1) };
    }
    SUCCESS
}
