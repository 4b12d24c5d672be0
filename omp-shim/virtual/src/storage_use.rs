//! Which modules cannot tell under which thread pointer they run: no code in them has anything in thread-local storage
//! that it uses before and after a construct (a variable, an address or an identity that the C library derives from the
//! thread).
//!
//! *Approach.* A list of what is known to be harmless; everything else counts as use. A module has thread-local
//! variables only if a program header or a relocation says so. What else it does to threads it does by imported
//! functions: each of those listed is done with thread-local storage when it returns, and calls nothing of the
//! program's. (`errno` is handled separately. `__ctype_b_loc` and its like return places with the same content in every
//! thread, as long as none sets a locale.) The libraries below are not examined: they have thread-local variables, but
//! no constructs. A module that replaces the C library's allocation is called by its functions, so it counts as use.
//!
//! *Excluded on purpose.* `omp_set_*` (per-thread settings); nested locks (owned by a thread); `fork` and what starts
//! processes (the child's C library frees the stack that it runs on); functions that call back (`qsort`, `atexit`);
//! signals; threads, locales, exceptions, loading. Assembly that reads the thread pointer is not noticed.

use core::ffi::CStr;

use mapper_shim_core::elf::Trace;
use mapper_shim_core::symbols::{Function, StorageUse};

/// Libraries that belong to the C library and to the compiler.
const KNOWN: [&str; 10] = [
    "ld-linux-x86-64.so.2",
    "libc.so.6",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libgomp.so.1",
    "libm.so.6",
    "libmvec.so.1",
    "libpthread.so.0",
    "librt.so.1",
    "linux-vdso.so.1",
];

pub(super) fn is_known(path: &CStr) -> bool {
    let path = path.to_bytes();
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    KNOWN.iter().any(|known| known.as_bytes() == name)
}

/// Whether a module at `path` that has this trace may tell under which thread pointer it runs.
pub(super) fn touches_storage(path: &CStr, trace: Trace<'_>) -> bool {
    if is_known(path) {
        return false;
    }
    match trace {
        Trace::ThreadStorage | Trace::Allocator | Trace::Opaque => true,
        Trace::Import(name) => !name.to_str().is_ok_and(is_harmless),
    }
}

const MEMORY: &str = "memcpy memmove memset memcmp memchr memrchr rawmemchr memmem mempcpy bcmp bzero \
    strlen strnlen strcmp strncmp strcasecmp strncasecmp strcpy strncpy stpcpy stpncpy strcat strncat \
    strchr strchrnul strrchr strstr strcasestr strspn strcspn strpbrk strsep strdup strndup \
    malloc calloc realloc reallocarray free posix_memalign aligned_alloc memalign valloc \
    malloc_usable_size mmap mmap64 munmap madvise mprotect mlock munlock";

const NUMBERS: &str = "atoi atol atoll atof strtol strtoul strtoll strtoull strtod strtof strtold strtoimax \
    strtoumax __isoc23_strtol __isoc23_strtoul __isoc23_strtoll __isoc23_strtoull abs labs llabs div ldiv \
    rand srand rand_r random srandom drand48 erand48 lrand48 nrand48 mrand48 jrand48 srand48 \
    drand48_r srand48_r erand48_r random_r srandom_r initstate_r getenv secure_getenv \
    exit _exit _Exit abort __assert_fail __stack_chk_fail __chk_fail __fortify_fail \
    toupper tolower isalpha isdigit isalnum isspace isupper islower isprint ispunct isxdigit \
    __ctype_b_loc __ctype_tolower_loc __ctype_toupper_loc optarg optind opterr optopt getopt getopt_long \
    environ __environ";

/// Files. The owner of a file's lock is identified by the thread, but it is given back on return.
const FILES: &str = "printf fprintf dprintf sprintf snprintf asprintf vprintf vfprintf vsprintf vsnprintf \
    vasprintf __printf_chk __fprintf_chk __sprintf_chk __snprintf_chk __vprintf_chk __vfprintf_chk \
    __vsprintf_chk __vsnprintf_chk __asprintf_chk __vasprintf_chk puts putchar putc fputs fputc \
    fwrite fread fgets fgetc getc getchar ungetc getline getdelim fopen fopen64 freopen fdopen fclose fflush \
    fseek fseeko fseeko64 ftell ftello ftello64 rewind feof ferror clearerr fileno setvbuf setbuf \
    perror scanf fscanf sscanf __isoc99_scanf __isoc99_fscanf __isoc99_sscanf __isoc23_scanf \
    __isoc23_fscanf __isoc23_sscanf __fread_chk __fgets_chk stdin stdout stderr _IO_putc _IO_getc \
    remove rename unlink open open64 close read write pread pwrite pread64 pwrite64 lseek lseek64 access \
    stat stat64 fstat fstat64 ftruncate ftruncate64 mkdir isatty";

const CLOCK: &str = "time clock gettimeofday clock_gettime clock_getres difftime times nanosleep clock_nanosleep \
    usleep sleep getpid getppid sysconf getpagesize gethostname uname getrandom sched_yield";

const FRAME: &str = "__libc_start_main __cxa_finalize __gmon_start__ _ITM_deregisterTMCloneTable \
    _ITM_registerTMCloneTable _Jv_RegisterClasses __errno_location";

/// Mathematics, for `double`; with an `f` or an `l` behind it for the other types.
const MATHEMATICS: &str = "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 \
    exp2 expm1 fabs fdim floor fma fmax fmin fmod frexp hypot ilogb j0 j1 jn ldexp lgamma llrint llround log \
    log10 log1p log2 logb lrint lround modf nan nearbyint nextafter nexttoward pow remainder remquo rint \
    round roundeven scalb scalbln scalbn significand sin sincos sinh sqrt tan tanh tgamma trunc y0 y1 yn \
    finite isinf isnan cabs cacos cacosh carg casin casinh catan catanh ccos ccosh cexp cimag clog conj cpow \
    cproj creal csin csinh csqrt ctan ctanh __finite __isinf __isnan __fpclassify __signbit";

fn is_harmless(name: &str) -> bool {
    let is_in = |list: &str, name: &str| list.split_ascii_whitespace().any(|word| word == name);
    let is_mathematics = || {
        let of_type = name.strip_suffix(['f', 'l']);
        is_in(MATHEMATICS, name) || of_type.is_some_and(|name| is_in(MATHEMATICS, name))
    };
    let is_of_runtime =
        || Function::of(name).is_some_and(|function| function.storage == StorageUse::KeepsNothing);
    // Vectors of mathematical functions.
    name.starts_with("_ZGV")
        || [MEMORY, NUMBERS, FILES, CLOCK, FRAME]
            .iter()
            .any(|list| is_in(list, name))
        || is_mathematics()
        || is_of_runtime()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sees(import: &str) -> bool {
        let import = std::ffi::CString::new(import).unwrap();
        touches_storage(c"/home/user/program", Trace::Import(&import))
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes")]
    fn functions_that_keep_nothing_in_thread_local_storage_are_harmless() {
        for name in "memcpy malloc __printf_chk stderr sqrtf powl fabs _ZGVbN2v_sin clock_gettime \
            __errno_location GOMP_parallel GOMP_loop_ull_nonmonotonic_dynamic_next \
            GOMP_parallel_loop_nonmonotonic_guided omp_get_thread_num __cxa_finalize"
            .split_ascii_whitespace()
        {
            assert!(!sees(name), "{name}");
        }
    }

    #[test]
    fn unknown_functions_and_those_that_may_keep_something_touch_storage() {
        for name in
            "pthread_self pthread_mutex_lock __tls_get_addr __cxa_begin_catch __cxa_get_globals \
            uselocale strtok strerror qsort fork system dlopen dlsym gettid syscall flockfile \
            sigaction fesetround omp_set_num_threads omp_set_schedule omp_set_nest_lock \
            GOMP_parallel_start GOMP_parallel_loop_static_start GOMP_parallel_end something_new f"
                .split_ascii_whitespace()
        {
            assert!(sees(name), "{name}");
        }
        assert!(sees(""));
    }

    #[test]
    fn thread_local_variables_touch_storage_except_in_known_libraries() {
        for (path, trace, touches) in [
            (c"", Trace::ThreadStorage, true),
            (c"/usr/lib/libfoo.so", Trace::ThreadStorage, true),
            (
                c"/usr/lib/libgomp-24e2ab19.so.1.0.0",
                Trace::ThreadStorage,
                true,
            ),
            (c"/usr/lib/libstrange.so", Trace::Opaque, true),
            (c"/home/user/program", Trace::Allocator, true),
            (
                c"/lib/x86_64-linux-gnu/libc.so.6",
                Trace::ThreadStorage,
                false,
            ),
            (c"linux-vdso.so.1", Trace::Opaque, false),
            (
                c"/usr/lib/libm.so.6",
                Trace::Import(c"__tls_get_addr"),
                false,
            ),
        ] {
            assert_eq!(touches_storage(path, trace), touches, "{path:?}");
        }
    }
}
