//! Runs over time as SVG charts: a line for each target, a chart for each run and quantity.
//!
//! Drawn like the bars of [`super::plot`]: ink becomes the page's text colour, lines have hues of middle brightness.

use plotters::prelude::*;

use super::plot::{Area, DrawResult, HPos, INK, finish, round_step, text};
use super::{Course, CoursePoint, Report, number};

const WIDTH: u32 = 860;
const HEIGHT: u32 = 220;
const LEFT: i32 = 70;
const RIGHT: i32 = 850;
const TOP: i32 = 26;
const BOTTOM: i32 = 190;
/// Hues told apart by most eyes (after Okabe and Ito, 2008), in the order of the targets; more targets begin again.
pub(super) const HUES: [RGBColor; 6] = [
    RGBColor(46, 134, 193),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(133, 146, 158),
];
/// Runs that are drawn: the first and second tell about caches, more are alike.
const RUNS_DRAWN: u32 = 2;

/// A value of a point, if it has one.
type Pick = fn(&CoursePoint) -> Option<f64>;

/// A quantity over time, as one line or two.
struct Quantity {
    title: &'static str,
    lines: &'static [Pick],
}

const LATENCY: Quantity =
    Quantity { title: "latency in ms: p50, and p99 thin", lines: &[|point| point.p50_ms, |point| point.p99_ms] };
const FAILURES: Quantity = Quantity { title: "failures per second", lines: &[|point| Some(point.errors_per_s)] };
const OF_LOAD: [Quantity; 3] =
    [Quantity { title: "good answers per second", lines: &[|point| Some(point.rate)] }, LATENCY, FAILURES];
const OF_CREATE: [Quantity; 3] =
    [Quantity { title: "files per second", lines: &[|point| Some(point.rate)] }, LATENCY, FAILURES];

/// A run of one target over time.
struct Run<'r> {
    target: &'r str,
    number: u32,
    course: &'r Course,
}

/// All charts, each with its title.
pub(super) fn charts(report: &Report) -> Vec<(String, String)> {
    let load = report.load.iter().flat_map(|load| &load.runs);
    let load: Vec<Run<'_>> =
        load.map(|run| Run { target: &run.target, number: run.run, course: &run.course }).collect();
    let create = report.create.iter().flat_map(|create| &create.runs);
    let create = create.map(|run| Run { target: &run.target, number: run.run, course: &run.course }).collect();
    [(load, OF_LOAD), (create, OF_CREATE)]
        .into_iter()
        .flat_map(|(runs, quantities)| charts_of(&runs, &quantities))
        .collect()
}

fn charts_of(runs: &[Run<'_>], quantities: &[Quantity]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for run in 1..=RUNS_DRAWN {
        let runs: Vec<&Run<'_>> = runs.iter().filter(|made| made.number == run).collect();
        for quantity in quantities {
            let title = format!("Run {run}: {}", quantity.title);
            found.extend(chart(&title, quantity, &runs).map(|svg| (title, svg)));
        }
    }
    found
}

/// One chart; `None` when there is nothing to draw, or nothing but zeros.
fn chart(title: &str, quantity: &Quantity, runs: &[&Run<'_>]) -> Option<String> {
    let points = || runs.iter().flat_map(|run| &run.course.points);
    let greatest = points().flat_map(|point| quantity.lines.iter().filter_map(|pick| pick(point))).fold(0.0, f64::max);
    let longest =
        runs.iter().filter_map(|run| Some(run.course.points.last()?.at_s + run.course.piece_s)).fold(0.0, f64::max);
    if greatest <= 0.0 || longest <= 0.0 {
        return None;
    }
    let scale = Scale { greatest, longest };
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
    draw(&area, quantity, runs, scale).ok()?;
    area.present().ok()?;
    drop(area);
    Some(finish(&svg, title, (WIDTH, HEIGHT)))
}

/// From values to pixels.
#[derive(Clone, Copy)]
struct Scale {
    greatest: f64,
    longest: f64,
}

impl Scale {
    #[expect(clippy::cast_possible_truncation, reason = "the value is at most the chart's width")]
    fn x(self, at_s: f64) -> i32 {
        LEFT + (at_s / self.longest * f64::from(RIGHT - LEFT)).round() as i32
    }

    #[expect(clippy::cast_possible_truncation, reason = "the value is at most the chart's height")]
    fn y(self, value: f64) -> i32 {
        BOTTOM - (value / self.greatest * f64::from(BOTTOM - TOP)).round() as i32
    }
}

fn draw(area: &Area<'_>, quantity: &Quantity, runs: &[&Run<'_>], scale: Scale) -> DrawResult {
    draw_grid(area, scale)?;
    let mut label_x = LEFT;
    for (index, run) in runs.iter().enumerate() {
        let hue = HUES[index % HUES.len()];
        for (line, pick) in quantity.lines.iter().enumerate() {
            let path: Vec<(i32, i32)> = run
                .course
                .points
                .iter()
                .filter_map(|point| Some((scale.x(point.at_s + run.course.piece_s / 2.0), scale.y(pick(point)?))))
                .collect();
            // A line needs two points; a run of one piece is a dot.
            if let [only] = path[..] {
                area.draw(&Circle::new(only, 3, hue.filled()))?;
            }
            area.draw(&PathElement::new(path, hue.stroke_width(if line == 0 { 2 } else { 1 })))?;
        }
        area.draw(&Rectangle::new([(label_x, 4), (label_x + 12, 16)], hue.filled()))?;
        text(area, run.target, (label_x + 18, 10), HPos::Left)?;
        label_x += 40 + 8 * i32::try_from(run.target.chars().count()).unwrap_or(RIGHT);
    }
    Ok(())
}

fn draw_grid(area: &Area<'_>, scale: Scale) -> DrawResult {
    let steps = |greatest: f64| {
        let step = round_step(greatest);
        (0..32).map(move |line| step * f64::from(line)).take_while(move |&value| value <= greatest)
    };
    let faint = INK.mix(0.25).stroke_width(1);
    for value in steps(scale.greatest) {
        let y = scale.y(value);
        area.draw(&PathElement::new(vec![(LEFT, y), (RIGHT, y)], faint))?;
        text(area, &number(value), (LEFT - 8, y), HPos::Right)?;
    }
    for at_s in steps(scale.longest) {
        let x = scale.x(at_s);
        area.draw(&PathElement::new(vec![(x, TOP), (x, BOTTOM)], faint))?;
        text(area, &format!("{} s", number(at_s)), (x, BOTTOM + 14), HPos::Center)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    #[test]
    fn a_chart_has_a_line_for_each_target_and_names_it() {
        let report = testing::load_example();
        let load = testing::load();
        let all = charts(&report);
        let titles: Vec<&str> = all.iter().map(|(title, _)| title.as_str()).collect();
        assert_eq!(
            titles,
            [
                "Run 1: good answers per second",
                "Run 1: latency in ms: p50, and p99 thin",
                "Run 1: failures per second",
                "Run 2: good answers per second",
                "Run 2: latency in ms: p50, and p99 thin",
            ],
            "without failures there is no chart of them"
        );
        let targets = load.runs.iter().filter(|run| run.run == 1);
        assert!(targets.clone().count() == 2 && targets.into_iter().all(|run| all[0].1.contains(&run.target)));
        for hue in ["#2E86C1", "#D55E00"] {
            assert_eq!(all[1].1.matches(&format!("stroke=\"{hue}\"")).count(), 2, "p50 and p99 in {hue}");
        }
        assert!(all.iter().all(|(_, svg)| svg.contains("currentColor") && svg.contains("viewBox")));
    }

    #[test]
    fn a_run_without_points_has_no_chart() {
        let mut report = testing::load_example();
        report.load.iter_mut().flat_map(|load| &mut load.runs).for_each(|run| run.course.points.clear());
        assert_eq!(charts(&report), []);
    }
}
