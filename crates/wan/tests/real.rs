//! The link in real namespaces, over real devices.
//!
//! Anybody but root runs each test again in a process of its own that is root of a user namespace: a process can only enter one before it has
//! a second thread, and a test has.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

use holdfast_wan::{
    Chance, Datagrams, Direction, Impairments, Loss, Mode, Queue, Wan, WanError, WanSettings, self_test, verify,
};

/// Runs a test as root, or as what the kernel takes for it.
fn as_root(name: &str, test: impl FnOnce()) {
    if rustix::process::geteuid().is_root() {
        return test();
    }
    let own = std::env::current_exe().expect("a test has a path");
    let status = Command::new("unshare")
        .args(["--user", "--map-root-user"])
        .arg(own)
        .args(["--exact", name, "--nocapture"])
        .status();
    assert!(status.expect("unshare is there").success(), "{name} fails as root of a user namespace");
}

fn start(to_near: Impairments, to_far: Impairments) -> Wan {
    Wan::start(&WanSettings { to_near, to_far, seed: 5, ..WanSettings::default() }).expect("a link")
}

fn mbit_100() -> Impairments {
    let queue = Queue { packets: 1000, bytes: None };
    Impairments { rate: Some(12_500_000), queue, delay: Duration::from_millis(5), ..Impairments::default() }
}

/// Sends so many bytes of a pattern from far to near over TCP, and compares them.
fn transfer(wan: &Wan, bytes: usize) {
    let listener = wan.far().run(|| TcpListener::bind((wan.far().address(), 0))).expect("entered").expect("a port");
    let to = listener.local_addr().expect("it is bound");
    let content: Vec<u8> = (0..bytes).map(|index| u8::try_from(index * 7 % 251).expect("below 251")).collect();
    let sent = content.clone();
    let sender = std::thread::spawn(move || listener.accept().expect("a connection").0.write_all(&sent).expect("sent"));
    let mut stream = wan.near().run(|| TcpStream::connect(to)).expect("entered").expect("connected");
    let mut found = Vec::new();
    stream.read_to_end(&mut found).expect("received");
    sender.join().expect("no panic");
    assert!(found == content, "{} of {bytes} bytes, or others", found.len());
}

#[test]
fn the_link_does_what_it_says_it_does() {
    as_root("the_link_does_what_it_says_it_does", || {
        // A machine that is busy for a moment is late once; a link that is wrong is so each time.
        let bad = (1..=3).find_map(|seed| {
            let found = self_test(2_000, seed).expect("it can be tested");
            assert!(found.findings.len() > 30, "{}", found.findings.len());
            let bad: Vec<_> = found.findings.into_iter().filter(|finding| !finding.good).collect();
            eprintln!("seed {seed}: {bad:#?}");
            bad.is_empty().then_some(())
        });
        assert!(bad.is_some(), "the link does something else three times");
    });
}

#[test]
fn tcp_comes_through_loss_corruption_reordering_and_duplication_unharmed() {
    as_root("tcp_comes_through_loss_corruption_reordering_and_duplication_unharmed", || {
        for mode in [Mode::True, Mode::Netem] {
            let harm = Impairments {
                mode,
                loss: Loss::Random(Chance::percent(2.0)),
                corruption: Chance::percent(2.0),
                duplication: Chance::percent(2.0),
                reordering: Chance::percent(2.0),
                ..mbit_100()
            };
            let wan = start(harm, harm);
            transfer(&wan, 2 << 20);
            for direction in [Direction::ToNear, Direction::ToFar] {
                let forwarded = wan.forwarded(direction);
                assert_eq!(verify(&harm, &forwarded.link), []);
            }
            let link = wan.forwarded(Direction::ToNear).link;
            assert!(link.loss.hits > 0 && link.corruption.hits > 0 && link.duplication.hits > 0, "{link:?}");
            assert!(link.offered.bytes > 2 << 20, "what was lost was sent again: {link:?}");
            assert_eq!((wan.unread().expect("counted"), wan.failure()), (0, None));
        }
    });
}

#[test]
fn udp_alone_is_kept_from_the_link_and_what_goes_is_counted_by_protocol() {
    as_root("udp_alone_is_kept_from_the_link_and_what_goes_is_counted_by_protocol", || {
        let wan = start(Impairments::default(), Impairments::default());
        let there = wan.far().run(|| UdpSocket::bind((wan.far().address(), 7))).expect("entered").expect("a port");
        let here = wan.near().run(|| UdpSocket::bind((wan.near().address(), 0))).expect("entered").expect("a port");
        there.set_read_timeout(Some(Duration::from_millis(300))).expect("set");
        let come = |count: usize| {
            for _ in 0..count {
                here.send_to(&[7; 972], (wan.far().address(), 7)).expect("sent");
            }
            let mut buffer = [0; 2_000];
            std::iter::from_fn(|| there.recv(&mut buffer).ok()).count()
        };
        assert_eq!(come(50), 50);
        wan.treat(Datagrams::Drop);
        assert_eq!(come(50), 0);
        transfer(&wan, 1 << 20);
        // With headers they are 1,000 bytes each, of which a burst of 50 ms goes at once.
        wan.treat(Datagrams::Police(100_000));
        let passed = come(50);
        assert!((5..20).contains(&passed), "{passed}");
        wan.treat(Datagrams::Pass);
        assert_eq!(come(50), 50);
        let there = wan.forwarded(Direction::ToFar);
        assert_eq!(there.udp.packets, 100 + passed as u64, "{there:?}");
        assert_eq!((there.udp.bytes, there.blocked.packets), (there.udp.packets * 1_000, 100 - passed as u64));
        assert!(wan.forwarded(Direction::ToNear).tcp.bytes > 1 << 20);
    });
}

#[test]
fn a_host_that_moves_is_somebody_else_to_the_other() {
    as_root("a_host_that_moves_is_somebody_else_to_the_other", || {
        let wan = start(Impairments::default(), Impairments::default());
        let listener = wan.far().run(|| TcpListener::bind((wan.far().address(), 0))).expect("entered").expect("a port");
        let to = listener.local_addr().expect("it is bound");
        let peer = || {
            let stream = wan.near().run(|| TcpStream::connect(to)).expect("entered").expect("connected");
            let (accepted, peer) = listener.accept().expect("a connection");
            drop((stream, accepted));
            peer.ip()
        };
        assert_eq!(peer(), wan.near().address());
        let other = std::net::Ipv4Addr::new(10, 97, 0, 3);
        wan.near().move_to(other).expect("moved");
        assert_eq!(peer(), other);
        let gone = wan.near().run(|| TcpListener::bind((wan.near().address(), 0))).expect("entered");
        assert_eq!(gone.expect_err("is gone").kind(), std::io::ErrorKind::AddrNotAvailable);
    });
}

#[test]
fn a_command_has_the_hosts_network_and_parameters_and_no_other() {
    as_root("a_command_has_the_hosts_network_and_parameters_and_no_other", || {
        let wan = start(mbit_100(), mbit_100());
        wan.near().set("net.ipv4.tcp_rmem", "4096 8192 8192").expect("set");
        let read = |host: &holdfast_wan::Host| {
            let mut command = Command::new("sh");
            command.args(["-c", "cat /proc/sys/net/ipv4/tcp_rmem; ls /proc/sys/net/ipv4/conf | wc -l"]);
            let (mut out, into) = std::io::pipe().expect("a pipe");
            command.stdin(Stdio::null()).stdout(into);
            let ended = host.start(command, Some(Duration::from_secs(30))).expect("started").wait().expect("ended");
            assert!(ended.success(), "{}", ended.words());
            let mut text = String::new();
            out.read_to_string(&mut text).expect("its output");
            text
        };
        let (near, far) = (read(wan.near()), read(wan.far()));
        assert!(near.starts_with("4096\t8192\t8192"), "{near}");
        assert!(!far.starts_with("4096\t8192\t8192"), "{far}");
        // all, default, lo and the link: no device of the machine.
        assert!(near.trim_end().ends_with("\n4"), "{near}");
        for (name, why) in
            [("kernel.hostname", "below net"), ("net.ipv4.no_such", "No such"), ("net.../x", "below net")]
        {
            let said = wan.near().set(name, "1").expect_err("refused").to_string();
            assert!(said.contains(why), "{said}");
        }
    });
}

#[test]
fn connections_use_the_congestion_control_that_was_asked_for() {
    as_root("connections_use_the_congestion_control_that_was_asked_for", || {
        for algorithm in ["cubic", "reno"] {
            let wan = start(mbit_100(), mbit_100());
            wan.near().set_congestion(algorithm).expect("set");
            wan.far().set_congestion(algorithm).expect("set");
            let listener =
                wan.far().run(|| TcpListener::bind((wan.far().address(), 0))).expect("entered").expect("a port");
            let to = listener.local_addr().expect("it is bound");
            let opened = wan.near().run(|| TcpStream::connect(to)).expect("entered").expect("connected");
            let (accepted, _) = listener.accept().expect("a connection");
            for stream in [&opened, &accepted] {
                assert_eq!(rustix::net::sockopt::tcp_congestion(stream).expect("told"), algorithm);
            }
        }
        let wan = start(mbit_100(), mbit_100());
        let said = wan.near().set_congestion("no-such").expect_err("refused").to_string();
        assert!(said.contains("no-such"), "{said}");
    });
}

#[test]
fn a_command_that_is_killed_or_too_slow_leaves_no_process_behind() {
    as_root("a_command_that_is_killed_or_too_slow_leaves_no_process_behind", || {
        let wan = start(Impairments::default(), Impairments::default());
        let folder = std::env::temp_dir().join(format!("wan-test-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        for kills in [true, false] {
            let pipe = folder.join(format!("alive-{kills}"));
            assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
            // It hides in a session of its own, with its parent gone, and holds the pipe open.
            let mut command = Command::new("sh");
            command.arg("-c").arg(format!("setsid sh -c 'exec sleep 1000 >{}' & sleep 1000", pipe.display()));
            let limit = (!kills).then_some(Duration::from_millis(300));
            let task = wan.near().start(command, limit).expect("started");
            let mut reader = std::fs::File::open(&pipe).expect("somebody writes");
            if kills {
                task.kill();
            }
            let ended = task.wait().expect("ended");
            assert_eq!((ended.killed, ended.timed_out, ended.success()), (kills, !kills, false));
            // The end of the file comes when nobody holds it any more, and then only.
            assert_eq!(reader.read_to_end(&mut Vec::new()).expect("read"), 0);
        }
        std::fs::remove_dir_all(&folder).expect("removed");
    });
}

#[test]
fn what_a_command_costs_is_counted_with_its_children() {
    as_root("what_a_command_costs_is_counted_with_its_children", || {
        let wan = start(Impairments::default(), Impairments::default());
        let mut command = Command::new("sh");
        command.args(["-c", "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; exit 3"]);
        let ended = wan.far().start(command, None).expect("started").wait().expect("ended");
        assert_eq!(ended.status.code(), Some(3));
        assert!(ended.user_s > 0.02, "{ended:?}");
        let said = wan.far().start(Command::new("no-such-program-here"), None).expect_err("it is not there");
        assert_eq!(said.kind(), std::io::ErrorKind::NotFound);
    });
}

#[test]
fn a_kernel_without_netem_says_so_and_one_with_it_delays() {
    as_root("a_kernel_without_netem_says_so_and_one_with_it_delays", || {
        let netem = Impairments { mode: Mode::Netem, delay: Duration::from_millis(20), ..Impairments::default() };
        let settings = WanSettings { to_near: netem, to_far: netem, seed: 1, kernel_netem: true };
        match Wan::start(&settings) {
            Ok(wan) => {
                let began = std::time::Instant::now();
                transfer(&wan, 100);
                assert!(began.elapsed() >= Duration::from_millis(40));
            }
            Err(WanError::NoNetem(why)) => assert!(why.contains("netem") && why.len() > 60, "{why}"),
            Err(other) => panic!("{other}"),
        }
        let other = WanSettings { to_near: Impairments::default(), ..settings };
        assert!(matches!(Wan::start(&other), Err(WanError::NoNetem(_))));
    });
}
