//! One chart for each kind of harm: goodput against its level, a line for each tool, and the ceiling.
//!
//! Levels are set at even distances, because they are chosen by doubling. Drawn like the charts of [`super::timeline`].

use plotters::prelude::*;

use super::plot::{Area, DrawResult, HPos, INK, finish, round_step, text};
use super::timeline::HUES;
use super::wan::{Outcome, WanCell, WanReport};
use super::{Report, number};
use crate::stats::Summary;

const WIDTH: u32 = 860;
const HEIGHT: u32 = 240;
const LEFT: i32 = 70;
const RIGHT: i32 = 830;
const TOP: i32 = 30;
const BOTTOM: i32 = 205;

/// All charts, each with its title.
pub(super) fn charts(report: &Report) -> Vec<(String, String)> {
    report.wan.iter().flat_map(|wan| groups(wan).into_iter().filter_map(|group| chart(wan, &group))).collect()
}

/// Cells of one kind of harm, one way, by one set of rules; only where there are at least two, which make a line.
fn groups(wan: &WanReport) -> Vec<Vec<&WanCell>> {
    let mut groups: Vec<Vec<&WanCell>> = Vec::new();
    let key = |cell: &WanCell| (cell.family, cell.many, cell.way, cell.to_near.mode);
    for cell in &wan.cells {
        match groups.iter_mut().find(|group| key(group[0]) == key(cell)) {
            Some(group) => group.push(cell),
            None => groups.push(vec![cell]),
        }
    }
    groups.retain(|group| group.len() > 1);
    groups
}

/// The median goodput of a tool in a cell, unfinished runs included with what they reached; `None` where all failed.
fn goodput(wan: &WanReport, cell: &WanCell, tool: &str) -> Option<f64> {
    let counts = |outcome| matches!(outcome, Outcome::Done | Outcome::Unfinished);
    let runs = wan.runs.iter().filter(|run| run.cell == cell.name && run.tool == tool && counts(run.outcome));
    Summary::of(&runs.map(|run| run.mb_per_s).collect::<Vec<_>>()).map(|summary| summary.median)
}

fn chart(wan: &WanReport, group: &[&WanCell]) -> Option<(String, String)> {
    let mut tools: Vec<&str> = wan.runs.iter().map(|run| run.tool.as_str()).collect();
    let mut seen = Vec::new();
    tools.retain(|tool| {
        !seen.contains(tool) && {
            seen.push(*tool);
            true
        }
    });
    let first = group.first()?;
    let title = format!("{}: goodput in MB/s, and the ceiling", series_name(&first.name));
    let ceilings = group.iter().filter_map(|cell| cell.ceiling_mb_per_s);
    let found = group.iter().flat_map(|cell| tools.iter().filter_map(|tool| goodput(wan, cell, tool)));
    let greatest = ceilings.chain(found).fold(0.0, f64::max);
    if greatest <= 0.0 {
        return None;
    }
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
    draw(&area, wan, group, &tools, greatest).ok()?;
    area.present().ok()?;
    drop(area);
    Some((title.clone(), finish(&svg, &title, (WIDTH, HEIGHT))))
}

/// A cell's name without its level: `files-loss.data` of `files-loss-8.data`.
fn series_name(cell: &str) -> String {
    let (row, rest) = cell.split_once('.').unwrap_or((cell, ""));
    format!("{}.{rest}", row.rsplit_once('-').map_or(row, |(name, _)| name))
}

#[expect(clippy::cast_possible_truncation, reason = "pixels of a small picture")]
fn draw(area: &Area<'_>, wan: &WanReport, group: &[&WanCell], tools: &[&str], greatest: f64) -> DrawResult {
    let x = |index: usize| LEFT + (f64::from(RIGHT - LEFT) * (index as f64 + 0.5) / group.len() as f64).round() as i32;
    let y = |value: f64| BOTTOM - (value / greatest * f64::from(BOTTOM - TOP)).round() as i32;
    let faint = INK.mix(0.25).stroke_width(1);
    let step = round_step(greatest);
    for value in (0..32).map(|line| step * f64::from(line)).take_while(|&value| value <= greatest) {
        area.draw(&PathElement::new(vec![(LEFT, y(value)), (RIGHT, y(value))], faint))?;
        text(area, &number(value), (LEFT - 8, y(value)), HPos::Right)?;
    }
    for (index, cell) in group.iter().enumerate() {
        text(area, &format!("{}", cell.level), (x(index), BOTTOM + 14), HPos::Center)?;
    }
    let ceiling = group
        .iter()
        .enumerate()
        .filter_map(|(index, cell)| Some((x(index), y(cell.ceiling_mb_per_s?))))
        .collect::<Vec<_>>();
    area.draw(&PathElement::new(ceiling, INK.mix(0.6).stroke_width(1)))?;
    let mut label_x = LEFT;
    for (index, tool) in tools.iter().enumerate() {
        let hue = HUES[index % HUES.len()];
        let points: Vec<(i32, i32)> = group
            .iter()
            .enumerate()
            .filter_map(|(index, cell)| Some((x(index), y(goodput(wan, cell, tool)?))))
            .collect();
        for point in &points {
            area.draw(&Circle::new(*point, 3, hue.filled()))?;
        }
        area.draw(&PathElement::new(points, hue.stroke_width(2)))?;
        area.draw(&Rectangle::new([(label_x, 6), (label_x + 12, 18)], hue.filled()))?;
        text(area, tool, (label_x + 18, 12), HPos::Left)?;
        label_x += 40 + 8 * i32::try_from(tool.chars().count()).unwrap_or(RIGHT);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    #[test]
    fn levels_of_one_harm_make_a_line_for_each_tool() {
        let mut report = testing::wan_example();
        assert_eq!(charts(&report), [], "one level makes no line");
        let wan = report.wan.as_mut().expect("a report of transfers");
        let place = wan.cells.iter().position(|cell| cell.name == "loss-8.data").expect("it is there");
        let mut more = wan.cells[place].clone();
        (more.name, more.level) = ("loss-16.data".to_owned(), 16.0);
        wan.cells.insert(place + 1, more);
        let mut run = wan.runs.iter().find(|run| run.cell == "loss-8.data").expect("it was run").clone();
        run.cell = "loss-16.data".to_owned();
        wan.runs.push(run);
        let found = charts(&report);
        assert_eq!(found.len(), 1);
        let (title, svg) = &found[0];
        assert!(title.starts_with("loss.data: goodput"), "{title}");
        assert!(
            ["ours", "theirs", ">8<", ">16<", "currentColor"]
                .iter()
                .all(|part| svg.contains(part) || svg.contains(part.trim_matches(['<', '>'])))
        );
        assert_eq!(svg.matches("<circle").count(), 3, "two of one tool, one of the other");
    }
}
