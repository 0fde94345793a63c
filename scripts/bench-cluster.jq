# The tables of scripts/bench-cluster.sh, from its rows.

def left($n): tostring | . + (" " * ([$n - length, 0] | max) // "");
def right($n): tostring | (" " * ([$n - length, 0] | max) // "") + .;
def digits($n): pow(10; $n) as $p | (. * $p | round) as $r | ($r / $p | floor | tostring) + if $n == 0 then "" else
    "." + (($r % $p | tostring) | ("0" * ([$n - length, 0] | max) // "") + .) end;
def short: if . < 10 then digits(2) elif . < 100 then digits(1) else digits(0) end;
def percent: (if . < 0 then "-" else "+" end) + (fabs * 100 | digits(1)) + " %";
def median: sort | if length % 2 == 1 then .[length / 2 | floor] else (.[length / 2 - 1] + .[length / 2]) / 2 end;
def target($text; $met): "  \(if $met then "met   " else "MISSED" end)  \($text)";
def all_cores: [.[]] | add;

. as $rows
| def of($page; $configuration; $run): $rows[] | select(.part == "004" and .page == $page and .configuration == $configuration and .run == $run);
  def scale($cpu; $what): [$rows[] | select(.part == "scale" and .cpu == $cpu and .what == $what)] | group_by(.nodes)
    | map({nodes: .[0].nodes, rate: (map(.rate) | median), p99: (map(.p99_ms) | median), cores: .[0].cores});
  def cold($what; $runs; figure): [$rows[] | select(.part == "cold" and .what == $what and ([.run] | inside($runs))) | figure] | median;
  def measured($part): any($rows[]; .part == $part);
if measured("004") then
"Configurations of report 004: \($threads) users that begin over 1 s, \($loops) requests of each; host 1 has \($host1) cores, host 2 \($host2)",
"A: two nodes on each host; B: the same, the store behind \($delay) ms each way and \($mbit) Mbit/s; C: two nodes on host 1.",
"Nodes are started with empty caches before each first run. The report's figures are of other machines and another program.", "",
("page   conf. run  " + ("reqs/s" | right(9)) + ("min/avg/max/dev ms" | right(26)) + ("errors" | right(9)) + "  | report 004: reqs/s" + ("min/avg/max/dev ms" | right(22)) + "  errors"),
($rows[] | select(.part == "004") | . as $row | ($report["\(.page) \(.configuration) \(.run)"] // "- - -" | split(" ")) as $theirs
    | (.page | left(7)) + (.configuration | left(6)) + (if .run == 1 then "first" else "second" end | left(6)) + (.rate | digits(1) | right(8))
    + ([.min_ms, .avg_ms, .max_ms, .dev_ms] | map(short) | join("/") | right(26)) + ((.failed * 100 / .requests | digits(2)) + "%" | right(9))
    + "  | " + ($theirs[0] | right(18)) + ($theirs[1] | right(22)) + (($theirs[2] + (if $theirs[2] == "-" then "" else "%" end)) | right(8))),
"",
(["home", "about"][] as $page | of($page; "A"; 2).rate as $a | of($page; "C"; 1).rate as $c1 | of($page; "C"; 2).rate as $c2
    | "\($page): A to C \($a / $c2 | digits(2)) (second runs), \($a / $c1 | digits(2)) (A's second to C's first, as the report counts: 1.36 there), from "
    + "\($host1 + $host2 | . / $host1 | digits(2)) times the processor; B to A \(of($page; "B"; 2).rate / $a | digits(2)) (0.87 there)"),
(["home", "about"][] as $page | "\($page): second runs to first: "
    + ([["A", "B", "C"][] as $k | "\($k) \(of($page; $k; 2).rate / of($page; $k; 1).rate - 1 | percent)"] | join(", ")) + (if $page == "home" then " (A +8.3 %, B +28.8 % there)" else "" end)), ""
else empty end,
if measured("cold") then
"A node that has just started, its store behind the slow link, its caches empty: \($pages) contents asked for again and again, one at a time; medians",
"", (("" | left(7)) + ("start ms" | right(10)) + ("first 100: avg ms" | right(20)) + ("next 100" | right(12)) + ("warm" | right(12)) + ("next to warm" | right(15))),
(["pages", "files"][] as $what | cold($what; [1]; .start_ms) as $start | cold($what; [1]; .avg_ms) as $first | cold($what; [2]; .avg_ms) as $next | cold($what; [3, 4, 5, 6, 7]; .avg_ms) as $warm
    | ($what | left(7)) + ($start | digits(0) | right(10)) + ($first | digits(3) | right(20)) + ($next | digits(3) | right(12))
    + ($warm | digits(3) | right(12)) + ($next / $warm | digits(2) | right(15))), ""
else empty end,
if measured("scale") then
"Scale: \($users) users, the 20 KiB page, and 4 KiB files over WebDAV with a token; medians. Ratios are to the least number of nodes.",
(($rows | map(select(.part == "scale") | .cpu) | reduce .[] as $cpu ([]; if index([$cpu]) then . else . + [$cpu] end))[] as $cpu
    | ("", (if $cpu == "all" then "Nodes may use all \($cores) cores:" else "Each node has \($cpu) cores:" end),
      (("" | left(7)) + ("nodes" | right(6)) + ("requests/s" | right(12)) + ("ratio" | right(8)) + ("p99 ms" | right(9)) + "   cores in use: " + ("nodes" | right(6)) + ("balancer" | right(10)) + ("database" | right(10)) + ("load" | right(7)) + ("all" | right(7))),
      (["pages", "files"][] as $what | scale($cpu; $what) as $all | $all[] | ($what | left(7)) + (.nodes | right(6)) + (.rate | digits(0) | right(12))
        + (.rate / $all[0].rate | digits(2) | right(8)) + (.p99 | short | right(9)) + "                 " + (.cores.nodes | digits(2) | right(6))
        + (.cores.balancer | digits(2) | right(10)) + (.cores.database | digits(2) | right(10)) + (.cores.load | digits(2) | right(7)) + (.cores | all_cores | digits(2) | right(7))))), ""
else empty end,
"Targets:",
(["home", "about"][] as $page | ["A", "B", "C"][] as $k | select(measured("004")) | (of($page; $k; 2).rate / of($page; $k; 1).rate - 1) as $by
    | target("\($k), \($page): the second run differs from the first by less than 10 %: \($by | percent)"; ($by | fabs) < 0.1)),
(["pages", "files"][] as $what | select(measured("cold")) | (cold($what; [2]; .avg_ms) / cold($what; [3, 4, 5, 6, 7]; .avg_ms)) as $ratio
    | target("a cold node, \($what): after 100 requests within 2 x of warm: \($ratio | digits(2))"; $ratio <= 2)),
(["pages", "files"][] as $what | select(measured("scale")) | ([$rows[] | select(.part == "scale" and .cpu != "all") | .cpu] | first) as $cpu | scale($cpu; $what) as $all
    | target("\($what): more nodes answer more, until the cores are used: \($all | map(.rate / $all[0].rate | digits(2)) | join(", "))";
        [range(1; $all | length)] | all(. as $at | $all[$at].rate > 1.1 * $all[$at - 1].rate or ($all[$at - 1].cores | all_cores) > 0.9 * $cores)))
