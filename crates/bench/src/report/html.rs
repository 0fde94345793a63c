//! The report as one page without any outside reference: figures, charts and circumstances.

use std::fmt::Write as _;

use super::{Bench, Report, Series, mebibytes, number, plot, spread, timeline, wan_plot};
use crate::size::size_label;

/// Light and dark by the reader's setting; tables scroll by themselves on narrow screens.
const STYLE: &str = include_str!("style.css");

/// Makes text safe inside elements and quoted attributes.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

pub(super) fn render(report: &Report) -> String {
    let mut page = String::new();
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>holdfast bench {bench}, {started}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>{title} side by side</h1>\n\
         <p>{started}, {runs} runs of each, interleaved, beginning with another server each time. Figures are medians \
         with least and greatest; MB is 10<sup>6</sup> bytes. Speed is in terms of the first server's: above 1 is faster.</p>\n",
        bench = report.bench.name(),
        title = match report.bench {
            Bench::Dav => "WebDAV servers",
            Bench::Http => "Web servers",
            Bench::Create => "Folders",
            Bench::Wan => "Transfers on bad networks",
            Bench::Fileserver => "A file server, confined and not",
            Bench::Source => "Sources packed and built, confined and not",
            Bench::Start => "The start of a program, confined and not",
            Bench::Leak => "What confined programs leave",
        },
        started = escape(&report.started),
        runs = report.runs,
    );
    add_failures(&mut page, report);
    add_charts(&mut page, wan_plot::charts(report));
    for series in &report.series {
        add_series(&mut page, series);
    }
    add_load(&mut page, report);
    add_stored(&mut page, report);
    add_baselines(&mut page, report);
    add_seed000(&mut page, report);
    add_circumstances(&mut page, report);
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

/// A table; the cells are escaped here.
fn table(page: &mut String, head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
    page.push_str("<div class=\"scroll\"><table>\n<thead><tr>");
    for cell in head {
        let _ = write!(page, "<th scope=\"col\">{}</th>", escape(cell));
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        page.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let cell = escape(cell);
            let _ = if column == 0 {
                write!(page, "<th scope=\"row\">{cell}</th>")
            } else {
                write!(page, "<td>{cell}</td>")
            };
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table></div>\n");
}

fn heading(page: &mut String, title: &str) {
    let _ = writeln!(page, "<h2>{}</h2>", escape(title));
}

fn add_series(page: &mut String, series: &Series) {
    heading(page, &series.info.title);
    if let Some(chart) = plot::chart(series) {
        let _ = writeln!(page, "<figure>{chart}</figure>");
    }
    let head = [
        "",
        &series.info.unit,
        "speed",
        "p50 ms",
        "p90 ms",
        "p99 ms",
        "max ms",
        "server CPU s",
        "client CPU s",
        "peak MiB",
        "runs",
    ];
    let rows = series.rows.iter().map(|row| {
        let percentile = |pick: fn(&super::Percentiles) -> f64| {
            row.latency.as_ref().map_or_else(String::new, |found| number(pick(found)))
        };
        vec![
            row.target.clone(),
            row.summary.as_ref().map_or_else(|| "failed".to_owned(), spread),
            row.speed.map_or_else(String::new, number),
            percentile(|found| found.p50_ms),
            percentile(|found| found.p90_ms),
            percentile(|found| found.p99_ms),
            percentile(|found| found.max_ms),
            row.server_cpu_s.as_ref().map_or_else(String::new, spread),
            row.client_cpu_s.as_ref().map_or_else(String::new, spread),
            row.peak_rss_bytes.map_or_else(String::new, |bytes| mebibytes(bytes as f64)),
            row.values.len().to_string(),
        ]
    });
    table(page, &head, rows);
}

fn add_load(page: &mut String, report: &Report) {
    for table_of in report.tables() {
        heading(page, table_of.title);
        let _ = writeln!(page, "<p>{}</p>", escape(&table_of.remark));
        table(page, table_of.head, table_of.rows);
    }
    add_charts(page, timeline::charts(report));
}

fn add_charts(page: &mut String, charts: Vec<(String, String)>) {
    for (title, chart) in charts {
        heading(page, &title);
        let _ = writeln!(page, "<figure>{chart}</figure>");
    }
}

fn add_stored(page: &mut String, report: &Report) {
    if report.stored.is_empty() {
        return;
    }
    heading(page, "Stored size");
    page.push_str("<p>Growth of the server's data folder on disk by the first upload.</p>\n");
    let rows = report.stored.iter().map(|row| {
        let stored = row.stored_bytes as f64;
        let share = format!("{:.1} %", stored / row.bytes as f64 * 100.0);
        vec![row.target.clone(), format!("{} {}", size_label(row.bytes), row.kind.title()), mebibytes(stored), share]
    });
    table(page, &["", "file", "stored MiB", "of the file"], rows);
}

fn add_baselines(page: &mut String, report: &Report) {
    if report.baselines.is_empty() {
        return;
    }
    heading(page, "Plain commands on the same data");
    let rows = report.baselines.iter().map(|row| {
        let rate = row.rate.as_ref().map(spread).or_else(|| row.missing.clone()).unwrap_or_default();
        let output = row.output_bytes.map_or_else(String::new, |bytes| mebibytes(bytes as f64));
        vec![
            row.command.clone(),
            format!("{} {}", size_label(row.bytes), row.kind.title()),
            rate,
            output,
            row.seconds.len().to_string(),
        ]
    });
    table(page, &["", "file", "MB/s", "output MiB", "runs"], rows);
}

fn add_seed000(page: &mut String, report: &Report) {
    if report.seed000.is_empty() {
        return;
    }
    heading(page, "Beside the CESNET test of CloudDrive");
    page.push_str(
        "<p>Theirs: report 000, cadaver over WebDAV to a node with 1 vCPU (Intel Xeon X5650, 2.666 GHz) and 1 GB of memory; \
         it does not say what the files contained. It was another machine: the gzip rows show how much of a factor that is.</p>\n",
    );
    let rows = report.seed000.iter().map(|row| {
        vec![
            row.what.clone(),
            format!("{} {}", size_label(row.bytes), row.kind.title()),
            row.who.clone(),
            format!("{:.3}", row.their_s),
            number(row.their_rate()),
            format!("{:.3}", row.our_s),
            number(row.our_rate()),
            number(row.factor),
        ]
    });
    table(page, &["", "file", "who", "theirs s", "theirs MB/s", "ours s", "ours MB/s", "factor"], rows);
}

fn add_failures(page: &mut String, report: &Report) {
    if report.interrupted {
        page.push_str("<p class=\"bad\">Interrupted: the figures are incomplete.</p>\n");
    }
    for warning in &report.warnings {
        let _ = writeln!(page, "<p class=\"bad\">{}</p>", escape(warning));
    }
    if report.error_count > 0 {
        let _ = writeln!(page, "<h2 class=\"bad\">Failures: {}</h2>", report.error_count);
        let rows =
            report.errors.iter().map(|error| vec![error.step.clone(), error.target.clone(), error.message.clone()]);
        table(page, &["step", "server", "what went wrong"], rows);
    }
}

fn add_circumstances(page: &mut String, report: &Report) {
    heading(page, "How this was measured");
    let machine = &report.machine;
    let mut rows = vec![
        vec!["command".to_owned(), report.command.clone()],
        vec![
            "machine".to_owned(),
            format!("{}, {} cores, {} MiB memory", machine.cpu, machine.cores, mebibytes(machine.memory_bytes as f64)),
        ],
        vec!["system".to_owned(), format!("{}, Linux {}, {}", machine.system, machine.kernel, machine.file_system)],
        vec!["versions".to_owned(), report.versions.join("; ")],
        vec!["load".to_owned(), report.load.iter().flat_map(|load| load.shapes.clone()).collect::<Vec<_>>().join("; ")],
        vec!["seed".to_owned(), report.seed.to_string()],
        vec!["took".to_owned(), format!("{} s", number(report.duration_s))],
    ];
    rows.retain(|row| row[0] != "load" || report.load.is_some());
    for target in &report.targets {
        let server = target.server.as_deref().unwrap_or("no Server header");
        let command = target.command.as_deref().unwrap_or("its processes are not known");
        rows.push(vec![target.label.clone(), format!("{} ({server}); {command}", target.url)]);
    }
    for data in &report.data {
        let origin = &data.origin;
        let sources: Vec<String> = origin.sources.iter().map(|path| path.display().to_string()).collect();
        let how = match data.kind {
            super::Kind::Bin => "key stream".to_owned(),
            super::Kind::Txt => format!(
                "{} MiB distinct, {} MiB of it generated, from {}",
                mebibytes(origin.distinct_bytes as f64),
                mebibytes(origin.synthetic_bytes as f64),
                sources.join(", ")
            ),
        };
        rows.push(vec![format!("{}.{}", size_label(data.bytes), data.kind.ending()), how]);
    }
    rows.extend(report.notes.iter().map(|note| vec!["note".to_owned(), note.clone()]));
    page.push_str("<div class=\"facts\">\n");
    table(page, &["", ""], rows);
    page.push_str("</div>\n");
}

#[cfg(test)]
mod tests {
    use super::super::testing;

    #[test]
    fn the_page_looks_as_it_did() {
        testing::assert_golden("page.html", &testing::example().html());
    }

    #[test]
    fn the_page_of_a_load_looks_as_it_did() {
        testing::assert_golden("load.html", &testing::load_example().html());
    }

    #[test]
    fn the_page_of_made_files_looks_as_it_did() {
        testing::assert_golden("create.html", &testing::create_example().html());
    }

    #[test]
    fn the_page_of_transfers_looks_as_it_did() {
        testing::assert_golden("wan.html", &testing::wan_example().html());
    }

    #[test]
    fn the_page_of_confined_programs_looks_as_it_did() {
        testing::assert_golden("confined.html", &testing::confined_example().html());
    }

    #[test]
    fn the_page_refers_to_nothing_outside_itself() {
        for report in testing::examples() {
            let page = report.html();
            for part in ["<script", "<link", "src=", "@import", "url("] {
                assert!(!page.contains(part), "{part}");
            }
        }
    }

    #[test]
    fn what_came_from_a_server_cannot_become_markup() {
        let mut report = testing::example();
        report.targets[0].server = Some("<script>alert('x')</script>".to_owned());
        let page = report.html();
        assert!(!page.contains("<script>") && page.contains("&lt;script&gt;"));
    }
}
