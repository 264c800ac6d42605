//! Processes as threads: each with a link of its own.

use super::*;
use crate::comm::Comm;
use std::time::{Duration, Instant};
use titan_ir::{Axis, Mesh};

fn rendezvous(seconds: u64) -> Rendezvous {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    Rendezvous { address: format!("127.0.0.1:{port}"), timeout: Duration::from_secs(seconds) }
}

fn hello(ranks: Range<u64>) -> Hello {
    Hello { fingerprint: "f".to_owned(), world_size: 4, ranks, steps: 3, saves_weights: true }
}

fn world(num_ranks: u64) -> Arc<World> {
    World::new(&Mesh { axes: vec![Axis { name: "ranks".into(), size: num_ranks }] })
}

/// Runs `body` in as many processes as there are parts.
fn run<T: Send>(
    hellos: &[Hello],
    seconds: u64,
    body: impl Fn(DiagResult<Link>, Arc<World>) -> T + Sync,
) -> Vec<T> {
    let rendezvous = rendezvous(seconds);
    std::thread::scope(|scope| {
        let threads: Vec<_> = hellos
            .iter()
            .map(|hello| {
                let (rendezvous, body) = (&rendezvous, &body);
                scope.spawn(move || {
                    let world = world(hello.ranks.end - hello.ranks.start);
                    body(Link::new(rendezvous, hello, &world), world)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn processes_agree_on_the_least_and_share_what_the_first_says() {
    let quiet = |ranks| Hello { saves_weights: false, ..hello(ranks) };
    let hellos = [hello(0..1), quiet(1..2), quiet(2..4)];
    let got = run(&hellos, 20, |link, _| {
        let link = link.unwrap();
        assert!(link.saves_weights, "the first process decides");
        let start = if link.is_center() { 7 } else { 9 };
        let least: Vec<u64> = (0..3).map(|i| link.min(start + i).unwrap()).collect();
        let told = link.broadcast(if link.is_center() { b"root" } else { b"" }).unwrap();
        let mut all = Vec::new();
        if link.is_center() {
            link.take_all(|bytes| all.push(bytes.to_vec())).unwrap();
        } else {
            link.give(&[b"pa", b"rt"]).unwrap();
            link.give(&[]).unwrap();
        }
        link.close(None);
        (least, told, all.len())
    });
    for (i, (least, told, num_parts)) in got.into_iter().enumerate() {
        assert_eq!((least, told), (vec![7, 8, 9], b"root".to_vec()));
        assert_eq!(num_parts, if i == 0 { 2 } else { 0 });
    }
}

#[test]
fn a_failure_of_one_stops_all_and_is_told() {
    let hellos = [hello(0..2), hello(2..4)];
    let started = Instant::now();
    let got = run(&hellos, 20, |link, world| {
        let link = link.unwrap();
        if link.is_center() {
            // The other's message is found while this one waits for what will never come.
            let said = link.min(1).unwrap_err();
            assert!(Comm::new(&world, 0).barrier().is_err(), "its ranks are stopped");
            said.to_string()
        } else {
            link.close(Some(&Diag::new("T0742", "aclnnMm returned 561002")));
            String::new()
        }
    });
    assert!(
        got[0].starts_with("error[T0764]: the process of rank 2 has failed: aclnnMm returned 561002"),
        "{}",
        got[0]
    );
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_process_that_vanishes_is_noticed() {
    let got = run(&[hello(0..3), hello(3..4)], 20, |link, _| {
        let link = link.unwrap();
        if link.is_center() { link.min(1).unwrap_err().to_string() } else { String::new() }
    });
    assert!(got[0].starts_with("error[T0764]: the process of rank 3 has ended before the run"), "{}", got[0]);
}

#[test]
fn processes_that_do_not_fit_are_told_why() {
    let other_artifact = Hello { fingerprint: "g".to_owned(), ..hello(2..4) };
    let other_steps = Hello { steps: 5, ..hello(2..4) };
    for (theirs, why) in [
        (other_artifact, "the process of ranks 2..4 has another artifact"),
        (other_steps, "the process of ranks 2..4 runs 5 steps, not 3"),
        (hello(1..3), "the process of ranks 1..3 and that of ranks 0..2 share ranks: look at --first-rank"),
    ] {
        let got = run(&[hello(0..2), theirs], 20, |link, _| link.map(drop).unwrap_err());
        assert!(got.iter().all(|diag| diag.code == "T0763" && diag.message.ends_with(why)), "{got:?}");
    }
}

#[test]
fn those_who_do_not_come_are_named() {
    let got = run(&[hello(0..2), hello(3..4)], 1, |link, _| link.map(drop).unwrap_err().message);
    assert!(got[0].ends_with("after 1 s ranks 2 have not come"), "{got:?}");
    assert!(got[1].contains("the process of rank 0 refuses the run: after 1 s"), "{got:?}");
    let alone = run(&[hello(2..4)], 1, |link, _| link.map(drop).unwrap_err());
    assert_eq!(alone[0].code, "T0762");
    assert!(alone[0].message.contains("rank 0 is not there after 1 s"), "{}", alone[0]);
}

/// With one thread to hear them all, the silent ones would use up the time, 2 seconds each.
#[test]
fn those_who_say_nothing_keep_nobody_waiting() {
    let rendezvous = rendezvous(2);
    std::thread::scope(|scope| {
        let center = scope.spawn(|| Link::new(&rendezvous, &hello(0..3), &world(3)).map(drop));
        let silent: Vec<_> = (0..4)
            .map(|_| {
                loop {
                    match std::net::TcpStream::connect(&rendezvous.address) {
                        Ok(stream) => break stream,
                        Err(_) => std::thread::sleep(Duration::from_millis(10)),
                    }
                }
            })
            .collect();
        let last = Link::new(&rendezvous, &hello(3..4), &world(1)).map(drop);
        assert_eq!((center.join().unwrap(), last), (Ok(()), Ok(())));
        drop(silent);
    });
}
