//! Several nodes that serve one drive.

use std::net::SocketAddr;

use holdfast_testkit::http::Client;
use holdfast_testkit::server::{ServerOptions, TestServer};
use holdfast_testkit::services::free_port;
use serde_json::Value;

use crate::Outcome;
use crate::engines::Engines;
use crate::rig::{NAME, PASSWORD};

/// Longer than the balancers keep idle connections.
const DRAIN_DELAY_S: &str = "7";

/// The nodes, and the folder they lie in.
#[derive(Debug)]
pub struct Cluster {
    /// The nodes; replaced when a test starts one again.
    pub nodes: Vec<TestServer>,
    /// Addresses that nodes have again when they are started again, if they are behind a balancer.
    pub fixed: Vec<SocketAddr>,
    _folder: tempfile::TempDir,
}

impl Cluster {
    /// So many nodes and an account.
    pub fn new(engines: Engines, nodes: usize) -> Outcome<Self> {
        Self::with(engines, nodes, &[])
    }

    /// The same with more variables.
    pub fn with(engines: Engines, nodes: usize, more: &[(&'static str, String)]) -> Outcome<Self> {
        let folder = tempfile::tempdir()?;
        let variables = [&engines.variables(folder.path())?, more].concat();
        Self::on(&variables, nodes, Vec::new(), folder)
    }

    /// The same at addresses that stay, for a balancer, which is believed.
    pub fn behind_a_balancer(engines: Engines, nodes: usize) -> Outcome<Self> {
        let folder = tempfile::tempdir()?;
        Self::behind_a_balancer_on(&engines.variables(folder.path())?, nodes, folder)
    }

    /// The same on engines that variables name.
    pub fn behind_a_balancer_on(
        variables: &[(&'static str, String)],
        nodes: usize,
        folder: tempfile::TempDir,
    ) -> Outcome<Self> {
        let address = |_| Ok(SocketAddr::from(([127, 0, 0, 1], free_port()?)));
        Self::on(variables, nodes, (0..nodes).map(address).collect::<Outcome<_>>()?, folder)
    }

    fn on(
        variables: &[(&'static str, String)],
        nodes: usize,
        fixed: Vec<SocketAddr>,
        folder: tempfile::TempDir,
    ) -> Outcome<Self> {
        let options = |number: usize| {
            let options = ServerOptions::new(folder.path().join(format!("node{number}")))
                .environment("HOLDFAST_NODE_NAME", &format!("node{number}"));
            let options = match fixed.get(number) {
                None => options,
                Some(address) => options
                    .environment("HOLDFAST_LIMITS__DRAIN_DELAY_S", DRAIN_DELAY_S)
                    .environment("HOLDFAST_TRUSTED_PROXIES", "127.0.0.1")
                    .environment("HOLDFAST_ALLOW_PLAIN_HTTP", "true")
                    .argument("--listen")
                    .argument(&address.to_string()),
            };
            variables.iter().fold(options, |options, (name, value)| options.environment(name, value))
        };
        options(0).add_account(NAME, PASSWORD)?;
        let nodes = (0..nodes).map(|number| Ok(options(number).start()?)).collect::<Outcome<_>>()?;
        Ok(Self { nodes, fixed, _folder: folder })
    }

    /// A client of each node, signed in with a password or token.
    pub fn clients(&self, password: &str) -> Vec<Client> {
        self.nodes.iter().map(|node| node.client_of(NAME, password)).collect()
    }

    /// Starts a node again on its data directory.
    pub fn start_again(&mut self, number: usize) -> Outcome {
        self.nodes[number] = self.nodes[number].start_again()?;
        Ok(())
    }

    /// What `cluster status` tells, and its exit code.
    pub fn status(&self) -> Outcome<(Value, Option<i32>)> {
        let output = self.nodes[0].options().run(&["cluster", "status", "--json"], b"")?;
        let status = serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("cluster status: {error}\n{}", String::from_utf8_lossy(&output.stderr)))?;
        Ok((status, output.status.code()))
    }

    /// The names of the nodes that are up.
    pub fn up(&self) -> Outcome<Vec<String>> {
        let (status, _) = self.status()?;
        let nodes = status["nodes"].as_array().ok_or("no nodes in the status")?;
        let up = nodes.iter().filter(|node| node["ok"] == true);
        Ok(up.filter_map(|node| Some(node["name"].as_str()?.to_owned())).collect())
    }
}
