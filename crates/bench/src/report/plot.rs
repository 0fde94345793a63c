//! One SVG bar chart for each series: a bar to the median, a line from least to greatest, a dot for each run.
//!
//! Colours have to work on light and dark pages. Text and grid are drawn in two marker colours that are afterwards
//! replaced by `currentColor`; the bars use hues of middle brightness.

use plotters::prelude::*;

use super::{Better, Series, number};

const WIDTH: u32 = 860;
const ROW_HEIGHT: u32 = 30;
const HEAD_HEIGHT: u32 = 12;
const FOOT_HEIGHT: u32 = 28;
/// Room for labels left of the bars, and for values right of them.
const LABEL_WIDTH: i32 = 210;
const VALUE_WIDTH: i32 = 110;
const BAR_HEIGHT: i32 = 16;
/// Marks what becomes the page's text colour.
pub(super) const INK: RGBColor = RGBColor(1, 2, 3);
const INK_MARK: &str = "#010203";
/// The first target's bar, and those of the others.
const FIRST: RGBColor = RGBColor(46, 134, 193);
const OTHER: RGBColor = RGBColor(133, 146, 158);
/// Lines besides that at 0 at the smallest step.
const MAX_GRID_LINES: u32 = 6;

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
pub(super) type DrawResult = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// The chart as an `<svg>` element, or `None` when no target has a figure.
pub(super) fn chart(series: &Series) -> Option<String> {
    let greatest = series.rows.iter().filter_map(|row| row.summary).map(|summary| summary.max).fold(0.0, f64::max);
    if greatest <= 0.0 {
        return None;
    }
    let rows = u32::try_from(series.rows.len()).ok()?;
    let height = HEAD_HEIGHT + rows * ROW_HEIGHT + FOOT_HEIGHT;
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
    draw(&area, series, Scale { greatest, height: i32::try_from(height).ok()? }).ok()?;
    area.present().ok()?;
    drop(area);
    Some(finish(&svg, &series.info.title, (WIDTH, height)))
}

/// Makes what the backend drew fit into the page: its ink, its width, a description.
pub(super) fn finish(svg: &str, title: &str, (width, height): (u32, u32)) -> String {
    let title = super::html::escape(title);
    let described = svg.replace(INK_MARK, "currentColor").replacen(
        "<svg ",
        &format!("<svg role=\"img\" aria-label=\"{title}\" "),
        1,
    );
    // Fixed sizes give way to the page's width; the view box keeps the proportions.
    described.replacen(&format!("width=\"{width}\" height=\"{height}\""), "", 1)
}

/// From values to pixels.
#[derive(Clone, Copy)]
struct Scale {
    greatest: f64,
    height: i32,
}

impl Scale {
    #[expect(clippy::cast_possible_truncation, reason = "the value is at most the chart's width")]
    fn x(self, value: f64) -> i32 {
        let room = f64::from(WIDTH.cast_signed() - LABEL_WIDTH - VALUE_WIDTH);
        LABEL_WIDTH + (value / self.greatest * room).round() as i32
    }

    fn y(index: usize) -> i32 {
        let index = i32::try_from(index).unwrap_or(i32::MAX / 64);
        HEAD_HEIGHT.cast_signed() + index * ROW_HEIGHT.cast_signed() + ROW_HEIGHT.cast_signed() / 2
    }
}

fn draw(area: &Area<'_>, series: &Series, scale: Scale) -> DrawResult {
    draw_grid(area, series, scale)?;
    for (index, row) in series.rows.iter().enumerate() {
        let y = Scale::y(index);
        text(area, &row.target, (LABEL_WIDTH - 8, y), HPos::Right)?;
        let Some(summary) = &row.summary else {
            text(area, "failed", (LABEL_WIDTH + 4, y), HPos::Left)?;
            continue;
        };
        let color = if index == 0 { FIRST } else { OTHER };
        let half = BAR_HEIGHT / 2;
        area.draw(&Rectangle::new([(LABEL_WIDTH, y - half), (scale.x(summary.median), y + half)], color.filled()))?;
        area.draw(&PathElement::new(vec![(scale.x(summary.min), y), (scale.x(summary.max), y)], INK.stroke_width(2)))?;
        for &value in &row.values {
            area.draw(&Circle::new((scale.x(value), y), 3, INK.filled()))?;
        }
        text(area, &number(summary.median), (scale.x(summary.max) + 8, y), HPos::Left)?;
    }
    Ok(())
}

fn draw_grid(area: &Area<'_>, series: &Series, scale: Scale) -> DrawResult {
    let bottom = scale.height - FOOT_HEIGHT.cast_signed();
    let step = round_step(scale.greatest);
    for value in (0..=MAX_GRID_LINES).map(|line| step * f64::from(line)).take_while(|&value| value <= scale.greatest) {
        let x = scale.x(value);
        area.draw(&PathElement::new(
            vec![(x, HEAD_HEIGHT.cast_signed() / 2), (x, bottom)],
            INK.mix(0.25).stroke_width(1),
        ))?;
        text(area, &number(value), (x, bottom + 12), HPos::Center)?;
    }
    let direction = match series.info.better {
        Better::Higher => "more is better",
        Better::Lower => "less is better",
    };
    text(area, &format!("{}, {direction}", series.info.unit), (8, bottom + 12), HPos::Left)
}

/// The smallest of 1, 2 and 5 times a power of ten that needs no more than the grid's lines.
pub(super) fn round_step(greatest: f64) -> f64 {
    let least = greatest / f64::from(MAX_GRID_LINES);
    let power = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0].map(|digit| digit * power).into_iter().find(|&step| step >= least).unwrap_or(10.0 * power)
}

/// Which side of the text its position is.
#[derive(Clone, Copy)]
pub(super) enum HPos {
    Left,
    Center,
    Right,
}

pub(super) fn text(area: &Area<'_>, content: &str, position: (i32, i32), side: HPos) -> DrawResult {
    use plotters::style::text_anchor::{HPos as Anchor, Pos, VPos};
    let anchor = match side {
        HPos::Left => Anchor::Left,
        HPos::Center => Anchor::Center,
        HPos::Right => Anchor::Right,
    };
    let style = TextStyle::from(("sans-serif", 13)).color(&INK).pos(Pos::new(anchor, VPos::Center));
    area.draw_text(content, &style, position)
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    #[test]
    fn a_chart_names_every_target_and_has_a_dot_for_each_run() {
        let series = &testing::example().series[0];
        let svg = chart(series).expect("there are figures");
        for row in &series.rows {
            assert!(svg.contains(&row.target), "{} is missing", row.target);
        }
        let runs: usize = series.rows.iter().map(|row| row.values.len()).sum();
        assert_eq!(svg.matches("<circle").count(), runs);
    }

    #[test]
    fn a_chart_takes_its_ink_and_its_width_from_the_page() {
        let svg = chart(&testing::example().series[0]).expect("there are figures");
        assert!(svg.contains("currentColor") && !svg.contains(INK_MARK));
        assert!(svg.contains("viewBox") && !svg.contains("width=\"860\""));
    }

    #[test]
    fn grid_steps_are_round_and_few() {
        for (greatest, step) in [(6.0, 1.0), (1000.0, 200.0), (13.0, 5.0), (0.3, 0.05), (59.0, 10.0), (3700.0, 1000.0)]
        {
            assert!((round_step(greatest) / step - 1.0).abs() < 1e-9, "{greatest}: {}", round_step(greatest));
        }
    }

    #[test]
    fn without_figures_there_is_no_chart() {
        let mut series = testing::example().series[0].clone();
        for row in &mut series.rows {
            row.summary = None;
        }
        assert_eq!(chart(&series), None);
    }
}
