#!/usr/bin/env node
// Runs suites of tests side by side, the longest first, and prints what each said when it ends: as many as there are processors, and as many beside
// them of those that wait for most of their time (one of any kind when these are done).
//
//   scripts/suites.mjs [all] [short] [engines] [web] [lint] [NAME...]
//
//     all      every test program of the workspace, on SQLite and files; the pages' own units
//     short    suites on the other databases and stores, as small as a build machine has time for
//     engines  the same at their usual size, and more of them (long)
//     web      the pages in Chromium and in Firefox
//     lint     make lint, which gets what of the processors the suites leave
//     NAME     the test program of that name (mount_net, or transfer/lib for a crate's units)
//
//   HOLDFAST_BIN  the program under test (default: target/ci/holdfast)
//   SUITES_JOBS   how many run at once, without those that wait (default: as many as there are processors)
//   SUITES_LOG    a folder for what each said and a table: seconds each took, seconds of processors, name, exit code
//
// One that takes longer than its bound is ended with all it started and counts as failed. Of a few that failed, each is run once more when
// nothing else runs: what passes then is told by name as a matter of time, not of right and wrong. The last line says how many tests passed and failed.

import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import process from "node:process";

const ROOT = resolve(dirname(new URL(import.meta.url).pathname), "..");
process.chdir(ROOT);
process.env.HOLDFAST_BIN ??= join(ROOT, "target/ci/holdfast");
const JOBS = Number(process.env.SUITES_JOBS ?? availableParallelism());
/** No suite needs a quarter of it on two busy processors, at the size CI gives them. */
const MINUTES_MAX = Number(process.env.SUITES_MINUTES ?? 25);

/** Seconds of suites that take long beside others: what is begun last keeps the rest waiting. The rest counts as one. */
const SECONDS = {
    mount_soak: 320, transfer_outage: 190,
    "cli/all": 230, "meta/lib": 230, third_party: 210, "transfer/lib": 190, transfer_planes: 430, "blob/swift": 170, chaos: 160,
    "gate/all": 160, flips: 110, balancers: 110, jobs_served: 100, transfer: 100, io_faults: 100, crash_disk: 90, mount_locks: 90, "function/all": 80,
    transfer_objects: 80, space: 70, model: 70, cluster: 70, "broker/all": 70, mount_net_first: 70, mount_spool: 60, mount_two: 30, store_tls: 70, kill: 70, mount_first: 60, mount_quic: 60,
    bad_input: 60, slow_clients: 30, "blob/faults": 50, transfer_drive: 50, run_gate: 50, function: 50, transfer_sftp: 50, mount_links: 50, transfer_imap: 40, cluster_web: 40,
};

/** Suites that leave the processors to others for two thirds of their time or more. */
const WAITING = new Set([
    "lint", "mount_soak", "blob/faults", "jobs_served", "cluster", "transfer_objects", "transfer_drive", "transfer_sftp", "quic_flood", "mount_quic", "mount_care", "mount_belief", "mount_leases", "transfer_outage",
    "run_gate", "remote/all", "meta/lib", "blob/swift", "function", "meanwhile", "model on postgres,swift", "mount_leases on postgres,fs", "kill on postgres,swift", "kill on postgres,s3", "bad_data on postgres,swift", "jobs", "wan/real", "plane/all", "transfer_planes", "transfer_imap", "mount_spool",
    ...["admin", "interrupted", "jobs", "look", "sharing", "smart", "large"].flatMap((name) => [`${name} in chromium`, `${name} in firefox`]),
]);

/** Passwords at a cost that protects nothing, for programs with assertions; those about what the program takes have them as they are. */
process.env.TESTS_ARGON2_KIB ??= "64";
const AT_THEIR_COST = { TESTS_ARGON2_KIB: undefined };

/**
 * Settings of single suites. Less than five minutes of a mount under faults say nothing of its memory; six clusters of three nodes at once are more
 * than two processors start in time; and outages are waited for all together.
 */
const OWN = {
    mount_soak: { HOLDFAST_SOAK_SECONDS: process.env.HOLDFAST_SOAK_SECONDS ?? "300" },
    cluster_web: { RUST_TEST_THREADS: "3" },
    transfer_outage: { RUST_TEST_THREADS: "4" },
    memory: AT_THEIR_COST,
    quic_flood: AT_THEIR_COST,
};

/** Sizes for a build machine. What the store has no part in is tried on files, what the disk has none in on object stores. */
const SHORT = { HOLDFAST_MODEL_SEEDS: 1, HOLDFAST_KILLS: 10, HOLDFAST_FAULT_STEP: 3, HOLDFAST_UPLOAD_MIB: 64, HOLDFAST_ENTRIES: 10000 };
const SHORT_SUITES = {
    "postgres,fs": ["model", "kill", "bad_input", "io_faults", "mount_leases"],
    "postgres,s3": ["model", "kill", "third_party", "secrecy", "memory"],
    "postgres,swift": ["model", "kill", "bad_data"],
};
// Not here: balancers, chaos, cluster, cluster_web and moving name their engines themselves; crash_disk, crash_web and io_faults are about
// the disk that packs lie on, and an object service has its disks to itself.
const EVERY = ["model", "kill", "third_party", "bad_data", "bad_input", "secrecy", "flips", "memory", "slow_clients", "space", "meanwhile"];
const ENGINES_SUITES = {
    "postgres,fs": [...EVERY, "crash_disk", "crash_web", "io_faults"],
    "postgres,s3": EVERY,
    "postgres,swift": EVERY,
};

/** Has the shell say at the end of what it runs which time of processors that took, with all that it waited for. */
const TIMED = 'TIMEFORMAT="suites: %U %S"; time "$0" "$@"';

/** Runs a program and answers its exit code, what it said, and the seconds of processors that it took. Its standard input is empty. */
function run(command, args, { cwd = ROOT, env = {}, echo = false, minutes = MINUTES_MAX } = {}) {
    return new Promise((done) => {
        const child = spawn("bash", ["-c", TIMED, command, ...args], { cwd, env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"], detached: true });
        const said = [];
        const keep = (chunk) => {
            said.push(chunk);
            if (echo) process.stderr.write(chunk);
        };
        child.stdout.on("data", (chunk) => said.push(chunk));
        child.stderr.on("data", keep);
        const clock = setTimeout(() => {
            said.push(Buffer.from(`\nsuites: ended after ${minutes} minutes\n`));
            try {
                process.kill(-child.pid, "SIGKILL");
            } catch {
                // It has just ended.
            }
        }, minutes * 60_000);
        child.on("error", (error) => said.push(Buffer.from(`${error}\n`)));
        // Not "exit": what it said may still be on its way.
        child.on("close", (code) => {
            clearTimeout(clock);
            const all = Buffer.concat(said).toString();
            // One that was ended has no such line.
            const [line, user, system] = all.match(/suites: ([\d.]+) ([\d.]+)\n$/) ?? ["", 0, 0];
            done({ code: code ?? 1, said: all.replace(line, ""), spent: Number(user) + Number(system) });
        });
    });
}

/** The test programs of the workspace: compiled if need be, `[{ name, path, cwd }]`. */
async function programs() {
    const args = ["test", "--profile", "ci", "--locked", "--workspace", "--no-run", "--message-format", "json-render-diagnostics"];
    const { code, said } = await run("cargo", args, { echo: true, minutes: 60 });
    if (code !== 0) process.exit(code);
    const found = [];
    for (const line of said.split("\n")) {
        if (!line.startsWith("{")) continue;
        const { reason, profile, executable, target, manifest_path: manifest } = JSON.parse(line);
        if (reason !== "compiler-artifact" || !profile.test || !executable) continue;
        const cwd = dirname(manifest);
        const crate = basename(cwd);
        const name = target.kind[0] === "test" ? (crate === "e2e" ? target.name : `${crate}/${target.name}`) : `${crate}/${target.kind[0]}`;
        found.push({ name, path: executable, cwd });
    }
    return found;
}

const rust = (program, engines, env = {}) => ({
    name: engines ? `${program.name} on ${engines}` : program.name,
    seconds: SECONDS[program.name] ?? 1,
    start: () => run(program.path, [], { cwd: program.cwd, env: { CARGO_MANIFEST_DIR: program.cwd, ...(engines && { HOLDFAST_ENGINES: engines }), ...OWN[program.name], ...env } }),
});

function on(engines, found, env) {
    return Object.entries(engines).flatMap(([place, names]) => names.map((name) => rust(found.find((program) => program.name === name), place, env)));
}

function inBrowsers() {
    const files = readdirSync("web/e2e").filter((name) => name.endsWith(".test.mjs"));
    return ["chromium", "firefox"].flatMap((browser) =>
        files.map((file) => ({
            name: `${file.replace(".test.mjs", "")} in ${browser}`,
            seconds: 60,
            start: () => run("node", ["--test", "--test-concurrency=1", `e2e/${file}`], { cwd: join(ROOT, "web"), env: { BROWSER: browser } }),
        })),
    );
}

/** How many tests passed, failed, and were left out, from the closing lines of cargo's, node's and vitest's runners. */
function count(said) {
    const plain = said.replaceAll(/\x1b\[[0-9;]*m/g, "");
    const sum = (pattern) => [...plain.matchAll(pattern)].reduce((all, [, number]) => all + Number(number), 0);
    return {
        passed: sum(/^test result: \w+\. (\d+) passed/gm) + sum(/^(?:#|ℹ) pass (\d+)$/gm) + sum(/^ *Tests .*?(\d+) passed/gm),
        failed: sum(/^test result: \w+\. \d+ passed; (\d+) failed/gm) + sum(/^(?:#|ℹ) fail (\d+)$/gm) + sum(/^ *Tests .*?(\d+) failed/gm),
        skipped: sum(/^test result: .*?(\d+) ignored/gm) + sum(/^(?:#|ℹ) skipped (\d+)$/gm),
    };
}

const wanted = new Set(process.argv.slice(2));
if (wanted.size === 0 || wanted.has("--help")) {
    console.log(readFileSync(new URL(import.meta.url), "utf8").match(/^\/\/.*$/gm).map((line) => line.slice(3)).join("\n"));
    process.exit(wanted.size === 0 ? 64 : 0);
}
const takes = (word) => wanted.delete(word);
const suites = [];
const [all, short, engines, web, lint] = ["all", "short", "engines", "web", "lint"].map(takes);
const found = all || short || engines || wanted.size > 0 ? await programs() : [];
if (all) {
    suites.push(...found.map((program) => rust(program)));
    suites.push({ name: "vitest", seconds: 5, start: () => run("npm", ["test", "--prefix", "web"]) });
    // Before the lints: cargo lets one of them at the folder of what is compiled.
    suites.push({ name: "documentation", seconds: 601, start: () => run("cargo", ["test", "--profile", "ci", "--locked", "--workspace", "--doc"]) });
}
if (short) suites.push(...on(SHORT_SUITES, found, SHORT));
if (engines) suites.push(...on(ENGINES_SUITES, found, {}));
if (web) suites.push(...inBrowsers());
// It takes the longest, and no suite a moment longer for it: on two busy processors longer than any may, where nothing is compiled yet.
if (lint) suites.push({ name: "lint", seconds: 600, start: () => run("nice", ["-n", "19", "make", "--no-print-directory", "lint"], { minutes: 60 }) });
for (const name of wanted) {
    const program = found.find((one) => one.name === name);
    if (!program) {
        console.error(`suites: there is no test program ${name}`);
        process.exit(64);
    }
    suites.push(rust(program));
}
// The longest first; of equals, as they stand.
suites.sort((a, b) => b.seconds - a.seconds);

const log = process.env.SUITES_LOG;
if (log) mkdirSync(log, { recursive: true });
/** More than these at a time are no matter of a busy machine. */
const AGAIN_MAX = 8;

/** Runs a suite and tells how it went: whether it passed, and its tests that passed, failed and were left out. */
async function tell(suite, name = suite.name) {
    const begun = performance.now();
    const { code, said, spent } = await suite.start();
    const seconds = (performance.now() - begun) / 1000;
    const counted = count(said);
    // One that was ended, or never began, has no closing line.
    if (code !== 0 && counted.failed === 0) counted.failed = 1;
    console.log(`== ${name}: ${code === 0 ? "ok" : `FAILED (${code})`}, ${counted.passed} passed in ${seconds.toFixed(1)} s`);
    // Of what went well, a line is enough.
    if (code !== 0) console.log(said);
    if (log) {
        writeFileSync(join(log, `${name.replaceAll(/[^\w]+/g, "-")}.log`), said);
        table.push(`${seconds.toFixed(1)}\t${spent.toFixed(1)}\t${name}\t${code}`);
        writeFileSync(join(log, "times.tsv"), `${table.join("\n")}\n`);
    }
    return { suite, ok: code === 0, counted };
}
const table = [];
const results = [];
const number = suites.length;

/** Takes the first suite of one kind, and then those of the other if it is for them as well. */
async function worker(waits, andOthers) {
    for (;;) {
        let at = suites.findIndex(({ name }) => WAITING.has(name) === waits);
        if (at < 0 && andOthers) at = 0;
        const [suite] = at < 0 ? [] : suites.splice(at, 1);
        if (!suite) return;
        results.push(await tell(suite));
    }
}
const begun = performance.now();
await Promise.all([
    ...Array.from({ length: JOBS }, () => worker(false, true)),
    // Of these one goes on with the others: as many as there are processors leave a fifth of them idle.
    ...Array.from({ length: JOBS }, (_, index) => worker(true, index === 0)),
]);
const failed = results.filter(({ ok }) => !ok);
for (const result of failed.length <= AGAIN_MAX ? failed : []) {
    Object.assign(result, await tell(result.suite, `${result.suite.name}, once more`));
}
console.log(`== ${number} suites in ${((performance.now() - begun) / 60_000).toFixed(1)} minutes`);
const names = (ok) => failed.filter((result) => result.ok === ok).map(({ suite }) => suite.name).join(", ");
if (names(true)) console.log(`passed the second time only: ${names(true)}`);
if (names(false)) console.log(`failed: ${names(false)}`);
const sum = (key) => results.reduce((all, { counted }) => all + counted[key], 0);
console.log(`${sum("passed")} passed, ${sum("failed")} failed, ${sum("skipped")} skipped`);
process.exit(names(false) || sum("passed") === 0 ? 1 : 0);
