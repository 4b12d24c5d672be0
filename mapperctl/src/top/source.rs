//! What is shown, as the daemon said it last.

use super::choice::Page;
use mapper_control::schema::{AppStatus, EndedApp, ExplainReply, HistoryReply, Status};
use mapper_control::{Client, ClientError, ClientErrorKind};
use mapper_model::AppId;
use std::path::Path;
use std::time::Duration;

/// How long the daemon may take for an answer: keys wait meanwhile.
const PATIENCE: Duration = Duration::from_secs(1);

/// One application at length.
#[derive(Clone, Debug)]
pub(super) enum Explained {
    Running(Box<ExplainReply>),
    Ended(Box<EndedApp>),
}

#[derive(Default)]
pub(super) struct Source {
    pub(super) client: Option<Client>,
    pub(super) status: Option<Status>,
    pub(super) explained: Option<Explained>,
    pub(super) history: Option<HistoryReply>,
    /// Why the daemon did not answer last; what is shown is older.
    pub(super) trouble: Option<String>,
}

impl Source {
    pub(super) fn apps(&self) -> &[AppStatus] {
        self.status.as_ref().map_or(&[], |status| &status.apps)
    }

    /// Asks for what the page needs.
    pub(super) fn ask(&mut self, socket: &Path, page: Page) {
        self.trouble = match self.try_ask(socket, page) {
            Ok(()) => None,
            Err(error) => {
                self.client = None;
                Some(error.to_string())
            }
        };
    }

    fn try_ask(&mut self, socket: &Path, page: Page) -> Result<(), ClientError> {
        let client = match &mut self.client {
            Some(client) => client,
            None => self.client.insert(Client::connect(socket, PATIENCE)?),
        };
        let status = client.status()?;
        match page {
            Page::Machine | Page::Help => {}
            Page::History => self.history = Some(client.history()?),
            Page::Explanation(app) => {
                self.explained = explained(client, &status, app, self.explained.take())?;
            }
        }
        self.status = Some(status);
        Ok(())
    }
}

fn explained(
    client: &mut Client,
    status: &Status,
    app: AppId,
    before: Option<Explained>,
) -> Result<Option<Explained>, ClientError> {
    if status.apps.iter().any(|running| running.id == app) {
        match client.explain(&app.to_string()) {
            Ok(reply) => return Ok(Some(Explained::Running(Box::new(reply)))),
            // It is another user's, or has ended since.
            Err(error) if matches!(error.kind, ClientErrorKind::Daemon(_)) => {}
            Err(error) => return Err(error),
        }
    }
    if let Some(Explained::Ended(ended)) = &before
        && ended.app == app
    {
        return Ok(before);
    }
    let mut history = client.history()?.ended.into_iter();
    let ended = history.find(|ended| ended.app == app);
    Ok(ended.map(|ended| Explained::Ended(Box::new(ended))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_is_not_there_is_reported_and_tried_again() {
        let place = tempfile::tempdir().unwrap();
        let mut source = Source::default();
        for _ in 0..2 {
            source.ask(&place.path().join("s"), Page::Machine);
            assert!(source.status.is_none());
            assert!(source.trouble.as_ref().is_some_and(|why| !why.is_empty()));
        }
    }
}
