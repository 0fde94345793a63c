//! Functions that this server calls: those of a folder, which `holdfast function deploy` fills on this machine.

use holdfast_base::Result;
use holdfast_function::{Host, Store};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Configuration of functions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FunctionsConfig {
    /// Folder of functions; none is off.
    pub folder: Option<PathBuf>,
}

/// The functions of a server.
pub struct ServedFunctions {
    host: Host,
    looking: JoinHandle<()>,
}

impl ServedFunctions {
    /// Begins to keep instances ready; none if no folder is named. Within a runtime.
    pub fn start(config: &FunctionsConfig) -> Result<Option<Self>> {
        let Some(folder) = &config.folder else { return Ok(None) };
        let host = Host::new(Store::open(folder)?);
        let looking = tokio::spawn({
            let host = host.clone();
            async move { host.run().await }
        });
        Ok(Some(Self { host, looking }))
    }

    /// For the API.
    pub fn host(&self) -> Host {
        self.host.clone()
    }

    /// Ends what is ready, and after this long what is under way.
    pub async fn stop(self, limit: Duration) {
        self.host.stop(limit).await;
        // It has seen that.
        let _ = self.looking.await;
    }
}
