//! `cargo xtask eval` and `cargo xtask replay`.

fn main() -> std::process::ExitCode {
    mapper_eval::main()
}
