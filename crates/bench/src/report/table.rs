//! The report as plain text with aligned columns.

use std::fmt::Write as _;

use super::{Report, Series, mebibytes, number, spread};
use crate::size::size_label;

/// A table that grows row by row and is aligned at the end; the first column to the left, the others to the right.
struct Columns {
    rows: Vec<Vec<String>>,
}

impl Columns {
    fn new(head: &[&str]) -> Self {
        Self { rows: vec![head.iter().map(ToString::to_string).collect()] }
    }

    fn add(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    fn render(&self) -> String {
        let count = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        // By characters, not bytes: the spread has a dash of three bytes.
        let width =
            |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
        let widths: Vec<usize> = (0..count).map(|column| width(column).unwrap_or(0)).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::from("  ");
            for (column, cell) in row.iter().enumerate() {
                let pad = " ".repeat(widths[column] - cell.chars().count());
                if column == 0 {
                    line.push_str(cell);
                    line.push_str(&pad);
                } else {
                    line.push_str("  ");
                    line.push_str(&pad);
                    line.push_str(cell);
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

pub(super) fn render(report: &Report) -> String {
    let mut text = String::new();
    add_head(&mut text, report);
    for series in &report.series {
        add_series(&mut text, series);
    }
    add_load(&mut text, report);
    add_stored(&mut text, report);
    add_baselines(&mut text, report);
    add_seed000(&mut text, report);
    add_failures(&mut text, report);
    text
}

/// Appends a line. Writing into a string cannot fail.
fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    let _ = text.write_fmt(content);
    text.push('\n');
}

fn add_head(text: &mut String, report: &Report) {
    let machine = &report.machine;
    line(
        text,
        format_args!(
            "holdfast bench {}, {}, {} runs, seed {}",
            report.bench.name(),
            report.started,
            report.runs,
            report.seed
        ),
    );
    let memory = mebibytes(machine.memory_bytes as f64);
    line(
        text,
        format_args!(
            "{}, {} cores, {memory} MiB memory, {}, Linux {}",
            machine.cpu, machine.cores, machine.system, machine.kernel
        ),
    );
    line(text, format_args!("file system {}; {}", machine.file_system, report.versions.join("; ")));
    line(text, format_args!("command: {}", report.command));
    for target in &report.targets {
        let server = target.server.as_deref().unwrap_or("no Server header");
        line(text, format_args!("{}: {} ({server}){}", target.label, target.url, command_of(target.command.as_ref())));
    }
    for note in &report.notes {
        line(text, format_args!("note: {note}"));
    }
    for shape in report.load.iter().flat_map(|load| &load.shapes) {
        line(text, format_args!("load: {shape}"));
    }
    line(
        text,
        format_args!(
            "Figures: median (least–greatest). MB = 10^6 bytes. speed: in terms of the first target's, above 1 is faster."
        ),
    );
}

fn command_of(command: Option<&String>) -> String {
    command.map_or_else(String::new, |command| format!("\n    {command}"))
}

fn add_series(text: &mut String, series: &Series) {
    line(text, format_args!("\n{}", series.info.title));
    let mut columns = Columns::new(&[
        "",
        &series.info.unit,
        "speed",
        "p50 ms",
        "p99 ms",
        "max ms",
        "server CPU s",
        "client CPU s",
        "peak MiB",
        "runs",
    ]);
    for row in &series.rows {
        let Some(summary) = &row.summary else {
            columns.add(vec![row.target.clone(), "failed".to_owned()]);
            continue;
        };
        let percentile =
            |pick: fn(&super::Percentiles) -> f64| row.latency.as_ref().map_or_else(dash, |found| number(pick(found)));
        columns.add(vec![
            row.target.clone(),
            spread(summary),
            row.speed.map_or_else(dash, number),
            percentile(|found| found.p50_ms),
            percentile(|found| found.p99_ms),
            percentile(|found| found.max_ms),
            row.server_cpu_s.map_or_else(dash, |cpu| number(cpu.median)),
            row.client_cpu_s.map_or_else(dash, |cpu| number(cpu.median)),
            row.peak_rss_bytes.map_or_else(dash, |bytes| mebibytes(bytes as f64)),
            summary.runs.to_string(),
        ]);
    }
    text.push_str(&columns.render());
    for row in series.rows.iter().filter(|row| row.reopened > 0) {
        line(text, format_args!("  {} closed the connection {} times in between", row.target, row.reopened));
    }
}

fn add_load(text: &mut String, report: &Report) {
    for table in report.tables() {
        line(text, format_args!("\n{}: {}", table.title, table.remark));
        let mut columns = Columns::new(table.head);
        table.rows.into_iter().for_each(|row| columns.add(row));
        text.push_str(&columns.render());
    }
}

fn dash() -> String {
    "-".to_owned()
}

fn add_stored(text: &mut String, report: &Report) {
    if report.stored.is_empty() {
        return;
    }
    line(text, format_args!("\nStored size: growth of the data folder on disk, first run"));
    let mut columns = Columns::new(&["", "file", "stored MiB", "of file"]);
    for row in &report.stored {
        let stored = row.stored_bytes as f64;
        let share = format!("{:.1} %", stored / row.bytes as f64 * 100.0);
        columns.add(vec![
            row.target.clone(),
            format!("{} {}", size_label(row.bytes), row.kind.title()),
            mebibytes(stored),
            share,
        ]);
    }
    text.push_str(&columns.render());
}

fn add_baselines(text: &mut String, report: &Report) {
    if report.baselines.is_empty() {
        return;
    }
    line(text, format_args!("\nPlain commands on the same data"));
    let mut columns = Columns::new(&["", "file", "MB/s", "output MiB", "runs"]);
    for row in &report.baselines {
        let file = format!("{} {}", size_label(row.bytes), row.kind.title());
        let rate = match (&row.rate, &row.missing) {
            (Some(rate), _) => spread(rate),
            (None, Some(why)) => why.clone(),
            (None, None) => dash(),
        };
        let output = row.output_bytes.map_or_else(dash, |bytes| mebibytes(bytes as f64));
        columns.add(vec![row.command.clone(), file, rate, output, row.seconds.len().to_string()]);
    }
    text.push_str(&columns.render());
}

fn add_seed000(text: &mut String, report: &Report) {
    if report.seed000.is_empty() {
        return;
    }
    line(
        text,
        format_args!(
            "\nBeside the CESNET test of CloudDrive (report 000; 1 vCPU Xeon X5650, another machine: its gzip rows tell how much that is)"
        ),
    );
    let mut columns = Columns::new(&["", "file", "who", "theirs s", "theirs MB/s", "ours s", "ours MB/s", "factor"]);
    for row in &report.seed000 {
        columns.add(vec![
            row.what.clone(),
            format!("{} {}", size_label(row.bytes), row.kind.title()),
            row.who.clone(),
            format!("{:.3}", row.their_s),
            number(row.their_rate()),
            format!("{:.3}", row.our_s),
            number(row.our_rate()),
            number(row.factor),
        ]);
    }
    text.push_str(&columns.render());
}

fn add_failures(text: &mut String, report: &Report) {
    for warning in &report.warnings {
        line(text, format_args!("\nWarning: {warning}"));
    }
    if report.error_count > 0 {
        line(text, format_args!("\nFailures: {}", report.error_count));
    }
    for error in &report.errors {
        line(text, format_args!("  {} on {}: {}", error.step, error.target, error.message));
    }
    if report.interrupted {
        line(text, format_args!("\nInterrupted: the figures are incomplete."));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;

    #[test]
    fn the_table_looks_as_it_did() {
        testing::assert_golden("table.txt", &testing::example().table());
    }

    #[test]
    fn the_table_of_a_load_looks_as_it_did() {
        testing::assert_golden("load.txt", &testing::load_example().table());
    }

    #[test]
    fn the_table_of_made_files_looks_as_it_did() {
        testing::assert_golden("create.txt", &testing::create_example().table());
    }

    #[test]
    fn the_table_of_transfers_looks_as_it_did() {
        testing::assert_golden("wan.txt", &testing::wan_example().table());
    }

    #[test]
    fn the_table_of_confined_programs_looks_as_it_did() {
        testing::assert_golden("confined.txt", &testing::confined_example().table());
    }

    #[test]
    fn failures_and_an_interrupt_are_shown() {
        let mut report = testing::example();
        report.interrupted = true;
        report.error_count = 7;
        report.errors.push(super::super::RunError {
            step: "PUT".into(),
            target: "ours".into(),
            message: "status 507".into(),
        });
        let text = report.table();
        for part in ["Failures: 7", "PUT on ours: status 507", "Interrupted"] {
            assert!(text.contains(part), "{part:?} is missing in {text}");
        }
    }
}
