# Archives `data`, checks the archive, and prints its size.
set -eu
mkdir -p data && echo "a file" > data/file.txt

archive="backup-$(echo "$TIMEBALL_FIRE_TIME" | cut -c1-10).tar.gz"
tar -czf "$archive" data
tar -tzf "$archive" > /dev/null

size=$(wc -c < "$archive")
echo "wrote $archive with $((size)) bytes"
echo "::result {\"archive\": \"$archive\", \"bytes\": $((size))}"
