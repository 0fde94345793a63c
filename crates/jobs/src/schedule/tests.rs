use super::cron::is_due;
use super::*;
use jiff::SignedDuration;
use jiff::civil::date;
use proptest::prelude::*;

fn zone(name: &str) -> TimeZone {
    TimeZone::get(name).expect("a zone")
}

fn at(text: &str) -> Timestamp {
    text.parse().expect("an instant")
}

fn cron(line: &str, zone_name: &str) -> Schedule {
    let when = When::Cron(Box::new(Cron::parse(line).expect("a line")));
    Schedule { when, zone: zone(zone_name), window: None }
}

fn every(period: &str, start: Option<Start>, zone_name: &str) -> Schedule {
    let when = When::Every(Period::parse(period).expect("a period"), start);
    Schedule { when, zone: zone(zone_name), window: None }
}

fn due(schedule: &Schedule, after: &str, count: usize) -> Vec<String> {
    let next = |after: &Timestamp| schedule.next_after(*after);
    let all = std::iter::successors(next(&at(after)), next).take(count);
    all.map(|at| at.to_string()).collect()
}

#[test]
fn a_fixed_hour_that_does_not_exist_is_due_when_the_clock_has_gone_forward() {
    // Berlin goes from 02:00 to 03:00 on 29 March 2026.
    let schedule = cron("30 2 * * *", "Europe/Berlin");
    let seen = due(&schedule, "2026-03-27T12:00:00Z", 3);
    assert_eq!(seen, ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]);
}

#[test]
fn a_fixed_hour_that_comes_twice_is_due_the_first_time() {
    // Berlin goes from 03:00 back to 02:00 on 25 October 2026.
    let schedule = cron("30 2 * * *", "Europe/Berlin");
    let seen = due(&schedule, "2026-10-24T12:00:00Z", 2);
    assert_eq!(seen, ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]);
}

#[test]
fn what_is_due_each_half_hour_is_so_through_both_changes() {
    let schedule = cron("*/30 * * * *", "Europe/Berlin");
    let forward = due(&schedule, "2026-03-29T00:00:00Z", 4);
    assert_eq!(
        forward,
        ["2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z", "2026-03-29T02:00:00Z"]
    );
    let back = due(&schedule, "2026-10-24T23:30:00Z", 6);
    let expected = ["00:00", "00:30", "01:00", "01:30", "02:00", "02:30"].map(|time| format!("2026-10-25T{time}:00Z"));
    assert_eq!(back, expected);
}

#[test]
fn a_leap_day_is_due_in_leap_years_and_a_day_that_never_is_is_refused() {
    let schedule = cron("0 0 29 2 *", "UTC");
    assert_eq!(due(&schedule, "2026-01-01T00:00:00Z", 2), ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]);
    assert_eq!(due(&schedule, "2096-03-01T00:00:00Z", 1), ["2104-02-29T00:00:00Z"], "1900, 2100 and the like are none");
    assert!(Cron::parse("0 0 31 2 *").is_err_and(|error| error.message().contains("never due")));
}

#[test]
fn fields_have_names_ranges_lists_and_steps_and_either_day_is_enough() {
    let seen = |line: &str, day, hour, minute| {
        is_due(&Cron::parse(line).expect(line), date(2026, 11, day).at(hour, minute, 0, 0))
    };
    assert!(seen("*/15 6-8 * nov mon-fri", 23, 8, 45), "a Monday");
    assert!(!seen("*/15 6-8 * nov mon-fri", 22, 8, 45), "a Sunday");
    assert!(seen("0 0 * * 7", 22, 0, 0) && seen("0 0 * * SUN", 22, 0, 0) && seen("@weekly", 22, 0, 0));
    assert!(seen("5,7/20 1 * * *", 1, 1, 47) && !seen("5,7/20 1 * * *", 1, 1, 6));
    assert!(seen("0 0 13 * fri", 13, 0, 0) && seen("0 0 1 * fri", 13, 0, 0) && seen("0 0 24 * fri", 24, 0, 0));
    assert!(!seen("0 0 */2 * fri", 14, 0, 0), "a star with a step restricts as well");
    for bad in [
        "",
        "* * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * * 13 *",
        "* * * * 8",
        "5-1 * * * *",
        "*/0 * * * *",
        "a * * * *",
        "1- * * * *",
        "-1 * * * *",
        "+1 * * * *",
    ] {
        assert!(Cron::parse(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn days_keep_their_local_time_and_hours_their_distance() {
    let six = Start::Local(date(2026, 3, 27).at(6, 0, 0, 0));
    let days = every("1d", Some(six), "Europe/Berlin");
    let seen = due(&days, "2026-03-26T00:00:00Z", 4);
    assert_eq!(seen, ["2026-03-27T05:00:00Z", "2026-03-28T05:00:00Z", "2026-03-29T04:00:00Z", "2026-03-30T04:00:00Z"]);
    let hours = every("6h", Some(six), "Europe/Berlin");
    let seen = due(&hours, "2026-03-28T20:00:00Z", 3);
    assert_eq!(seen, ["2026-03-28T23:00:00Z", "2026-03-29T05:00:00Z", "2026-03-29T11:00:00Z"]);
    let weeks = every("2w", Some(Start::At(at("2026-01-01T00:00:00Z"))), "UTC");
    assert_eq!(due(&weeks, "2026-01-10T00:00:00Z", 2), ["2026-01-15T00:00:00Z", "2026-01-29T00:00:00Z"]);
    assert_eq!(due(&every("6h", None, "UTC"), "2026-01-10T01:00:00Z", 1), ["2026-01-10T06:00:00Z"]);
    for bad in ["", "6", "h", "0h", "-1h", "1.5h", "6 h", "99999999999999999999h", "1000000d", "5y"] {
        assert!(Period::parse(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn what_was_missed_is_begun_once_within_the_tolerance_and_otherwise_passed_over() {
    let schedule = every("1h", None, "UTC");
    let hour = SignedDuration::from_mins(20);
    let dealt = at("2026-01-01T00:00:00Z");
    let decided = |now: &str| decide(&schedule, hour, dealt, at(now));
    assert_eq!(decided("2026-01-01T00:10:00Z"), Decision::Wait(at("2026-01-01T01:00:00Z")));
    assert_eq!(decided("2026-01-01T01:00:00Z"), Decision::Begin(at("2026-01-01T01:00:00Z")));
    assert_eq!(decided("2026-01-01T07:20:00Z"), Decision::Begin(at("2026-01-01T07:00:00Z")), "one for all seven");
    assert_eq!(decided("2026-01-01T07:20:01Z"), Decision::Pass);
    let never = Schedule { when: When::Never, ..schedule.clone() };
    assert_eq!(decide(&never, hour, dealt, dealt), Decision::Rest);
}

#[test]
fn a_window_over_midnight_holds_back_what_comes_due_outside_of_it() {
    let window = Window::parse("22:00-06:00").expect("a window");
    let schedule = Schedule { window: Some(window), ..cron("0 12,23 * * *", "Europe/Berlin") };
    let tolerance = SignedDuration::from_mins(10);
    let decided = |dealt: &str, now: &str| decide(&schedule, tolerance, at(dealt), at(now));
    // Berlin is an hour ahead in January.
    assert_eq!(decided("2026-01-05T10:00:00Z", "2026-01-05T11:00:00Z"), Decision::Wait(at("2026-01-05T21:00:00Z")));
    assert_eq!(decided("2026-01-05T10:00:00Z", "2026-01-05T21:00:00Z"), Decision::Begin(at("2026-01-05T11:00:00Z")));
    assert_eq!(decided("2026-01-05T10:00:00Z", "2026-01-05T21:30:00Z"), Decision::Pass, "late for its opening");
    assert_eq!(decided("2026-01-05T12:00:00Z", "2026-01-05T22:00:00Z"), Decision::Begin(at("2026-01-05T22:00:00Z")));
    for (time, open) in [("21:00", true), ("04:59", true), ("05:00", false), ("20:59", false), ("23:30", true)] {
        assert_eq!(window.is_open(&schedule.zone, at(&format!("2026-01-05T{time}:00Z"))), open, "{time}");
    }
    for bad in ["", "22:00", "22:00-22:00", "24:00-06:00", "6:0-7:00", "a-b", "-1:00-2:00"] {
        assert!(Window::parse(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn a_window_opens_and_closes_once_where_the_clock_is_changed() {
    let berlin = zone("Europe/Berlin");
    let window = Window::parse("02:30-04:00").expect("a window");
    assert_eq!(window.opens_after(&berlin, at("2026-03-28T12:00:00Z")), Some(at("2026-03-29T01:00:00Z")));
    assert_eq!(window.closes_after(&berlin, at("2026-03-29T01:00:00Z")), Some(at("2026-03-29T02:00:00Z")));
    assert_eq!(window.opens_after(&berlin, at("2026-10-24T12:00:00Z")), Some(at("2026-10-25T00:30:00Z")));
}

#[test]
fn the_latest_due_time_of_a_long_sleep_is_found_without_walking_through_it() {
    let schedule = every("1s", None, "UTC");
    let (from, until) = (at("2000-01-01T00:00:00Z"), at("2026-01-01T00:00:00Z"));
    assert_eq!(schedule.latest_between(from, until), Some(until));
    assert_eq!(schedule.latest_between(until, until), None);
}

proptest! {
    #[test]
    fn due_times_increase_and_none_is_lost_between_two_questions(
        minute in 0..60u32, hours in prop::sample::select(vec!["*", "2", "1-3", "*/2", "0,2,3"]),
        from in 1_774_000_000i64..1_800_000_000, step in 1i64..200_000,
        name in prop::sample::select(vec!["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago"]),
    ) {
        let schedule = cron(&format!("{minute},30 {hours} * * *"), name);
        let from = Timestamp::from_second(from).expect("a time");
        let until = Timestamp::from_second(from.as_second() + step).expect("a time");
        let next = |after: &Timestamp| schedule.next_after(*after);
        let all: Vec<Timestamp> = std::iter::successors(next(&from), next).take_while(|due| *due <= until).collect();
        prop_assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
        prop_assert_eq!(schedule.latest_between(from, until), all.last().copied());
        // Whoever asks from anywhere between two is told the later one.
        for pair in all.windows(2) {
            let between = Timestamp::from_second(i64::midpoint(pair[0].as_second(), pair[1].as_second())).expect("a time");
            prop_assert_eq!(next(&between), Some(pair[1]));
        }
        // Each day has one of a fixed hour, whatever its length is.
        if hours == "2" && minute == 30 {
            let mut days: Vec<_> = all.iter().map(|due| due.to_zoned_datetime(schedule.zone.clone()).date()).collect();
            let count = days.len();
            days.dedup();
            prop_assert_eq!(days.len(), count);
        }
    }

    #[test]
    fn no_line_panics(line in "[-*/,0-9a-z@ ]{0,30}") {
        if let Ok(cron) = Cron::parse(&line) {
            let seen = cron.upcoming(Timestamp::UNIX_EPOCH, 3);
            prop_assert!(seen.windows(2).all(|pair| pair[0] < pair[1]));
        }
        let _ = (Period::parse(&line), Window::parse(&line));
    }
}
