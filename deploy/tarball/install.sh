#!/bin/sh
# Installs mapper below a prefix, without root. A later version replaces an earlier one while its programs run.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
prefix=${HOME:-}/.local
case $# in
0) ;;
2) if [ "$1" = --prefix ]; then prefix=$2; else prefix=; fi ;;
*) prefix= ;;
esac
case $prefix in
/*) ;;
*)
    echo "usage: install.sh [--prefix FOLDER], an absolute path; without it ~/.local" >&2
    exit 2
    ;;
esac
case $prefix in
*[\ \	%\"\\\&\|]*)
    echo "install.sh: $prefix: give a folder without blanks, quotes, %, & and |" >&2
    exit 2
    ;;
esac

needed=$(cat "$here/share/mapper/glibc")
found=$(getconf GNU_LIBC_VERSION 2>/dev/null | cut -d' ' -f2)
if [ "$(printf '%s\n' "$needed" "${found:-0}" | sort -V | head -n1)" != "$needed" ]; then
    echo "install.sh: these programs need glibc $needed, this system has ${found:-another C library}; build mapper from source" >&2
    exit 1
fi

list=$prefix/share/mapper/installed
mkdir -p "$prefix/share/mapper"
(cd "$here" && find bin include lib share \( -type f -o -type l \) -print) | LC_ALL=C sort >"$list.new"
while read -r file; do
    mkdir -p "$prefix/$(dirname "$file")"
    # By a rename, as a program that runs cannot be written to.
    cp -P "$here/$file" "$prefix/$file.new"
    case $file in
    share/systemd/user/*) sed -i "s|/usr/bin/|$prefix/bin/|" "$prefix/$file.new" ;;
    esac
    mv -f "$prefix/$file.new" "$prefix/$file"
done <"$list.new"
# What an earlier version had and this one has not.
if [ -f "$list" ]; then
    LC_ALL=C comm -23 "$list" "$list.new" | while read -r file; do rm -f "$prefix/$file"; done
fi
mv -f "$list.new" "$list"
cat >"$prefix/share/mapper/uninstall.sh" <<'END'
#!/bin/sh
# Takes away what install.sh installed; folders that are empty then go, too.
set -eu
prefix=$(cd "$(dirname "$0")/../.." && pwd)
"$prefix/bin/mapper" stop || true
cd "$prefix"
while read -r file; do
    rm -f "$file"
    folder=$(dirname "$file")
    while [ "$folder" != . ] && rmdir "$folder" 2>/dev/null; do folder=$(dirname "$folder"); done
done <share/mapper/installed
rm -f share/mapper/installed share/mapper/uninstall.sh
rmdir share/mapper share 2>/dev/null || true
END
chmod 755 "$prefix/share/mapper/uninstall.sh"

"$prefix/bin/mapper" --version
case ":${PATH:-}:" in
*":$prefix/bin:"*) ;;
*) echo "Add $prefix/bin to PATH: export PATH=$prefix/bin:\$PATH" ;;
esac
