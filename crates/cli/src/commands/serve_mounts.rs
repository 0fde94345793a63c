//! Spaces that a server mounts on folders of its machine, straight over its engine. They end with it; it goes on without one that is unmounted.

use crate::secret;
use holdfast_auth::Proof;
use holdfast_base::{Error, ErrorKind, Result};
use holdfast_mount::{MountOptions, Mounted};
use holdfast_server::LocalDrive;
use holdfast_server::config::MountsConfig;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Time between two looks whether somebody has unmounted it.
const LOOK: Duration = Duration::from_millis(200);
/// Mounts of one server at most: each has threads of its own.
const MOUNTS_MAX: usize = 64;

/// A space and where it is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted {
    space: String,
    at: PathBuf,
}

fn wanted(spaces: &[String]) -> Result<Vec<Wanted>> {
    if spaces.len() > MOUNTS_MAX {
        return Err(Error::invalid(format!("a server mounts {MOUNTS_MAX} spaces at most")));
    }
    let mut all: Vec<Wanted> = Vec::new();
    for text in spaces {
        // A space's name may have the sign in it; the folder comes after the first one that a path from the root follows.
        let (space, at) = text
            .match_indices("=/")
            .map(|(at, _)| (&text[..at], &text[at + 1..]))
            .find(|(space, _)| !space.is_empty())
            .ok_or_else(|| Error::invalid(format!("{text:?} is no mount: write SPACE=/FOLDER, from the root on")))?;
        if all.iter().any(|other| other.at == Path::new(at)) {
            return Err(Error::invalid(format!("two spaces cannot be mounted on {at}")));
        }
        all.push(Wanted { space: space.to_owned(), at: PathBuf::from(at) });
    }
    Ok(all)
}

/// The mounts of a server.
pub(super) struct ServedMounts {
    stop: watch::Sender<bool>,
    running: Vec<JoinHandle<bool>>,
}

impl ServedMounts {
    /// Mounts what is wanted. If one of them cannot be, none is, and the server does not start.
    pub(super) async fn start(drive: &LocalDrive, config: &MountsConfig) -> anyhow::Result<Self> {
        let wanted = wanted(&config.spaces)?;
        let mut served = Self { stop: watch::Sender::new(false), running: Vec::new() };
        if wanted.is_empty() {
            return Ok(served);
        }
        let missing = |what: &str| Error::invalid(format!("mounts need {what}: whose key opens what is in them?"));
        let user = config.user.as_deref().ok_or_else(|| missing("--mount-user NAME (mounts.user)"))?;
        let file = config.password_file.as_deref();
        let file = file.ok_or_else(|| missing("--mount-password-file FILE (mounts.password_file)"))?;
        let password = secret::from_file(file)?;
        let who = Arc::new(drive.accounts().open(user, Proof::Password(&password)).await?);
        let target = drive.directory().root().canonicalize().unwrap_or_else(|_| drive.directory().root().to_owned());
        for Wanted { space, at } in wanted {
            let mounted = async {
                let options = MountOptions::new(
                    format!("holdfast:{space}"),
                    (target.display().to_string(), space.clone()),
                    drive.directory().scratch(),
                );
                let tree = drive.engine().own_tree(who.clone(), &space).await?;
                Mounted::start(tree, &at, &options.followed())
            };
            match mounted.await {
                Ok(mounted) => served.keep(mounted),
                Err(error) => {
                    served.stop().await;
                    return Err(error.context(format!("mounting {space:?} on {}", at.display())).into());
                }
            }
        }
        Ok(served)
    }

    fn keep(&mut self, mounted: Mounted) {
        let mut stopping = self.stop.subscribe();
        self.running.push(tokio::spawn(async move {
            let at = mounted.at().display().to_string();
            let ended = async {
                while !mounted.has_ended() {
                    tokio::time::sleep(LOOK).await;
                }
            };
            tokio::select! {
                () = ended => tracing::warn!(at, "a mount of this server was unmounted; it goes on without it"),
                _ = stopping.wait_for(|stop| *stop) => {}
            }
            match mounted.stop().await {
                Ok(_) => true,
                Err(error) => {
                    tracing::error!(%error, at, "a mount did not end in good order");
                    false
                }
            }
        }));
    }

    /// Saves what is open in them, and ends them; true if all ended in good order.
    pub(super) async fn stop(self) -> bool {
        self.stop.send_replace(true);
        let mut whole = true;
        for running in self.running {
            let ended = running.await.map_err(|error| Error::new(ErrorKind::Internal, error.to_string()));
            whole &= ended.unwrap_or(false);
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_a_space_and_a_folder_from_the_root_on() {
        let read = |text: &str| wanted(&[text.to_owned()]).map(|mut all| all.remove(0));
        let is = |space: &str, at: &str| Wanted { space: space.into(), at: at.into() };
        assert_eq!(read("team=/mnt/team").expect("reads"), is("team", "/mnt/team"));
        assert_eq!(read("a=b=/mnt/x=/y").expect("reads"), is("a=b", "/mnt/x=/y"));
        for bad in ["team", "team=", "=/mnt", "team=mnt", "/mnt"] {
            assert!(read(bad).is_err(), "{bad}");
        }
        let twice = ["a=/mnt".to_owned(), "b=/mnt".to_owned()];
        assert!(wanted(&twice).expect_err("twice").message().contains("/mnt"));
        assert!(wanted(&vec!["a=/b".to_owned(); MOUNTS_MAX + 1]).is_err());
    }
}
