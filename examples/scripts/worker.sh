#!/bin/sh
# A worker in sh: claims one job after the other and pipes its payload through a command.
#
#   worker.sh QUEUE COMMAND [ARG...]
#
# Needs leasectl and jq. It ends with 0 when nothing was claimable for 5 seconds. leasectl work does all of this and
# more; this shows the steps, for a language of your own.
set -u
queue=${1:?usage: worker.sh QUEUE COMMAND [ARG...]}
shift
dir=$(mktemp -d)

session=$(leasectl session open --as "sh-$$" --ttl 15s) || exit
# The heartbeat. It ends with the main script, also with one that is killed. When it fails, the session is gone and others
# may take over: the main script must not go on.
(while kill -0 $$ 2>/dev/null && leasectl session keepalive "$session" >/dev/null; do sleep 3; done; kill -TERM $$ 2>/dev/null) &
heartbeat=$!
trap 'kill $heartbeat; leasectl session close "$session" >/dev/null; rm -r "$dir"' EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

while :; do
    leasectl jobs claim "$queue" --session "$session" --wait 5s -o json >"$dir/job" 2>"$dir/why"
    case $? in
    0) ;;
    3) exit 0 ;; # nothing was claimable
    *) cat "$dir/why" >&2; exit 1 ;;
    esac
    ref=$(jq -r .ref "$dir/job")
    token=$(jq -r .token "$dir/job")
    nonce=$(jq -r .nonce "$dir/job")

    # Payloads that are not UTF-8 come as payload_base64.
    jq -r 'if .payload_base64 then .payload_base64 else .payload | @base64 end' "$dir/job" | base64 -d >"$dir/in"
    if "$@" <"$dir/in" >"$dir/out" 2>"$dir/err"; then
        leasectl jobs complete "$ref" --token "$token" --nonce "$nonce" <"$dir/out"
    else
        leasectl jobs fail "$ref" --token "$token" --nonce "$nonce" --error "$(tail -c 500 "$dir/err")"
    fi
    code=$?
    # 5 means that somebody else owns the job by now: its result counts, ours does not.
    [ $code = 0 ] || [ $code = 5 ] || exit $code
done
