//! Load on nginx from its package, kept alive and not: a server that nobody here wrote.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use holdfast_bench::load::{LoadOptions, LoadTarget, Plan, Step, run};
use url::Url;

/// Requests after which nginx closes a kept connection here.
const REQUESTS_PER_CONNECTION: u64 = 100;
const PAGE_BYTES: usize = 20 << 10;

/// nginx on a port of its own; ended by its id, also when a test panics.
struct Nginx {
    child: Child,
    url: String,
}

impl Nginx {
    /// `None` where nginx cannot be had.
    fn start(folder: &Path) -> Option<Self> {
        let need = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/need.sh");
        let had = Command::new(need).arg("nginx").stdin(Stdio::null()).status().expect("the script runs");
        if !had.success() {
            eprintln!("nginx cannot be had here: nothing tested");
            return None;
        }
        // Another process can take the port between the two: then nginx says so and ends, and the next is tried.
        (0..10).find_map(|_| Self::try_start(folder))
    }

    fn try_start(folder: &Path) -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port();
        let at = folder.display();
        let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
        let configuration = format!(
            "{user} daemon off; master_process off; pid {at}/pid; error_log stderr notice;\n\
             events {{ worker_connections 256; }}\n\
             http {{ access_log off; keepalive_requests {REQUESTS_PER_CONNECTION};\n\
             client_body_temp_path {at}/1; proxy_temp_path {at}/2; fastcgi_temp_path {at}/3; uwsgi_temp_path {at}/4;\n\
             scgi_temp_path {at}/5; server {{ listen 127.0.0.1:{port}; root {at}/site; }} }}\n"
        );
        std::fs::write(folder.join("conf"), configuration).ok()?;
        let path = format!("/usr/sbin:/sbin:{}", std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new("nginx");
        command.env("PATH", path).arg("-p").arg(folder).arg("-c").arg(folder.join("conf"));
        let mut child = command.args(["-e", "stderr"]).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().ok()?;
        let log = child.stderr.take()?;
        let nginx = Self { child, url: format!("http://127.0.0.1:{port}/page.html") };
        let mut lines = BufReader::new(log).lines().map_while(Result::ok);
        // It listens before it says what method it waits for events with.
        let listening =
            lines.any(|line| line.contains("event method")) && TcpStream::connect(("127.0.0.1", port)).is_ok();
        // The rest of its log has to go somewhere, or it would stop when the pipe is full.
        std::thread::spawn(move || lines.for_each(drop));
        listening.then_some(nginx)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn every_answer_of_nginx_is_whole_kept_alive_and_not() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("site")).expect("a folder");
    let page: Vec<u8> = (0..PAGE_BYTES).map(|at| b"0123456789abcdef\n"[at % 17]).collect();
    let mut file = std::fs::File::create(folder.path().join("site/page.html")).expect("a file");
    file.write_all(&page).expect("room");
    let Some(nginx) = Nginx::start(folder.path()) else { return };
    for (keep_alive, connections) in [(true, 4 * 5), (false, 2_000)] {
        let mut step = Step::get(Url::parse(&nginx.url).expect("a URL"));
        step.keep_alive = keep_alive;
        step.expect.content = Some(Arc::from(page.as_slice()));
        let plan = Plan { users: 4, loops: Some(500), ..Plan::once(vec![step]) };
        let target = LoadTarget { label: "nginx".to_owned(), pids: vec![nginx.child.id()], plan };
        let options = LoadOptions { runs: 1, settle: false, warm: false, ..LoadOptions::new(vec![target]) };
        let report = run(&options).expect("it runs");
        let run = &report.load.as_ref().expect("a load").runs[0];
        assert_eq!((run.requests, run.failed, run.connections), (2_000, 0, connections), "{:?}", run.errors);
        assert_eq!(run.reopened, 0, "nginx says when it will close");
        assert!(report.targets[0].server.as_deref().is_some_and(|server| server.starts_with("nginx")));
        assert!(report.series[0].rows[0].server_cpu_s.is_some());
    }
}
