//! What a peer may cost: floods of every kind end a connection, and a busy client does not.

use super::ErrorCode;
use super::frame::kind;
use super::tests::{Case, Outcome, block, get, made, outcome_of, post, settings, update};

#[test]
fn floods_are_told_to_calm_down() {
    let calm = Outcome::Away(ErrorCode::EnhanceYourCalm);
    let flood = |before: Vec<u8>, frame: &dyn Fn(u32) -> Vec<u8>, most: u32| {
        let mut case = Case::open();
        case.send(&[before]);
        for number in 0..most {
            case.send(&[frame(number)]);
            if case.connection.ended().is_some() {
                break;
            }
            assert!(case.connection.control.len() <= 33 << 10);
        }
        outcome_of(&mut case)
    };
    let ping = made(kind::PING, 0, 0, &[0; 8]);
    let big_block = vec![0; 16 << 10];
    type Flood = Box<dyn Fn(u32) -> Vec<u8>>;
    let cases: Vec<(&str, Vec<u8>, Flood)> = vec![
        ("PING", vec![], Box::new(move |_| ping.clone())),
        ("SETTINGS", vec![], Box::new(|_| settings(&[]))),
        ("settings in one frame", vec![], Box::new(|_| settings(&[(99, 0); 2000]))),
        ("PRIORITY", vec![], Box::new(|_| made(kind::PRIORITY, 0, 1, &[0; 5]))),
        ("WINDOW_UPDATE", get(1), Box::new(|_| update(1, 1))),
        ("empty DATA", post(1, &[]), Box::new(|_| made(kind::DATA, 0, 1, &[]))),
        ("unknown frames", vec![], Box::new(|_| made(99, 0, 0, &[]))),
        ("RST_STREAM of what ended", get(1), Box::new(|_| made(kind::RST_STREAM, 0, 1, &[0; 4]))),
        (
            "empty CONTINUATION",
            { made(kind::HEADERS, 0, 1, &[]) },
            Box::new(|_| made(kind::CONTINUATION, 0, 1, &[])),
        ),
        (
            "long CONTINUATION",
            { made(kind::HEADERS, 0, 1, &[]) },
            Box::new(move |_| made(kind::CONTINUATION, 0, 1, &big_block)),
        ),
        (
            "rapid reset",
            vec![],
            Box::new(|number| {
                [get(2 * number + 1), made(kind::RST_STREAM, 0, 2 * number + 1, &[0; 4])].concat()
            }),
        ),
        (
            "made-you-reset",
            vec![],
            Box::new(|number| [get(2 * number + 1), update(2 * number + 1, 0)].concat()),
        ),
        (
            "malformed requests",
            vec![],
            Box::new(|number| made(kind::HEADERS, 5, 2 * number + 1, &block(&[("x", "y")]))),
        ),
    ];
    for (what, before, frame) in cases {
        assert_eq!(flood(before, &frame, 100_000), calm, "{what}");
    }
}

#[test]
fn windows_that_grow_by_what_is_sent_are_no_flood() {
    let mut case = Case::open();
    case.send(&[get(1)]);
    for _ in 0..100_000 {
        assert_eq!(case.push(0, &[0; 1000], false), 1000);
        case.out.clear();
        case.send(&[update(1, 1000), update(0, 1000)]);
    }
    assert_eq!(outcome_of(&mut case), Outcome::Fine);
}
