//! `mapper page`: the machine, the programs on it and what was decided, as a page in a browser.
//!
//! This program serves it, with the rights of the user who started it and by the calls that any user may make of the
//! daemon. So a daemon that runs as root opens no port, and who sees what is decided in one place, its socket.

mod charts;
mod live;
mod marks;
mod picture;
mod recording;
mod server;
mod timeline;
mod view;

use crate::document::Document;
use anyhow::Context;
use clap::ValueHint;
use live::Live;
use mapper_control::socket_path::socket_path;
use marks::Marks;
use server::{Page, Server};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const KEYS: &str = include_str!("page.js");
const LIVE: &str = concat!(include_str!("page.js"), include_str!("live.js"));

/// Which page.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Show this recording, which `mapperd --record FILE` wrote, instead of a daemon
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    from: Option<PathBuf>,

    /// Write the page of the recording into this file and end
    #[arg(long, value_name = "FILE", requires = "from", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,

    /// Serve it at this port of 127.0.0.1 [default: any free one]
    #[arg(
        long,
        value_name = "PORT",
        conflicts_with = "out",
        default_value_t = 0,
        hide_default_value = true
    )]
    port: u16,
}

/// Serves a page until the program is ended, or writes one.
///
/// # Errors
/// Where a recording cannot be read, a file not be written, or nothing be served.
pub fn page(options: &Options, socket: Option<&Path>) -> anyhow::Result<()> {
    let Some(recording) = &options.from else {
        return live(options.port, socket_path(socket));
    };
    let picture = recording::read(recording)?;
    let mut marks = Marks::default();
    marks.keep(&picture.timeline.programs());
    let document = Document {
        title: format!("mapper: {}", recording.display()),
        script: KEYS,
        content: view::content(&picture, &marks),
    };
    match &options.out {
        None => serve(options.port, move |nonce| document.served(nonce)),
        Some(file) => {
            fs::write(file, document.file()).with_context(|| format!("write {}", file.display()))
        }
    }
}

fn live(port: u16, socket: PathBuf) -> anyhow::Result<()> {
    let live = Arc::new(Live::default());
    let watched = Arc::clone(&live);
    let watch = std::thread::Builder::new().spawn(move || watched.watch(&socket));
    watch.context("start the thread that asks the daemon")?;
    serve(port, move |nonce| {
        live.read(|picture, marks| {
            let page = Document {
                title: format!("mapper: {}", view::sentence(picture)),
                script: LIVE,
                content: view::content(picture, marks),
            };
            page.served(nonce)
        })
    })
}

/// Says where the page is, and serves it.
fn serve(port: u16, page: impl Fn(&str) -> String + Send + Sync + 'static) -> anyhow::Result<()> {
    let server = Server::bind(port)?;
    let address = server.address()?;
    let mut out = io::stdout();
    writeln!(out, "{address}")
        .and_then(|()| out.flush())
        .context("write to standard output")?;
    eprintln!("It is served until Ctrl-C; only who knows this address can read it.");
    server.serve(&(Arc::new(page) as Arc<Page>));
    Ok(())
}
