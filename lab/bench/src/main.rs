//! `cargo xtask bench`, `demo`, `eval --live`, `measure`, `soak` and `teams`.

fn main() -> std::process::ExitCode {
    mapper_corun::main()
}
