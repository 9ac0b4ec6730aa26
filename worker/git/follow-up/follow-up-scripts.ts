/**
 * The shell scripts of a follow-up, which run git inside the sandbox: check out and rebase the pull request's branch,
 * collect the work, and move it onto commits that somebody else pushed meanwhile.
 *
 * A retained checkout may be in any state. Work in it that exists nowhere else is saved on a branch before anything
 * changes. A checkout that cannot be used is moved aside, never deleted.
 */

import { OUT_REF } from '../checkout/run-repository.ts'
import { CACHE_INSIDE, EXCHANGE_INSIDE, HEAD_BUNDLE_INSIDE, HEAD_REF } from '../git-inside-sandbox.ts'
import { COMMIT_LEFTOVERS, DROP_LEFT_LOCKS, GIT_FUNCTION } from '../work/collect.ts'

/** The prefix of output lines that are answers of a script. */
export const ANSWER_PREFIX = 'follow-up: '
const FILES_LISTED_MAX = 50
const MERGES_LISTED_MAX = 10
/** Commits of the branch among which a commit of the same files is searched. */
const COMMITS_SEARCHED_MAX = 1_000

const SCRIPT_START = `export GIT_NO_REPLACE_OBJECTS=1 GIT_SEQUENCE_EDITOR=true
answer() { printf '${ANSWER_PREFIX}%s %s\\n' "$1" "$2"; }
`

/** $base, $base_commit, $head, $head_commit, $name, $email */
const SHARED_FUNCTIONS = `${GIT_FUNCTION}
fetch_both() {
  find .git -name '*.lock' -delete
  g fetch --quiet --force --prune --no-tags --no-write-fetch-head --no-auto-maintenance --no-recurse-submodules \\
    ${CACHE_INSIDE} '+refs/heads/*:refs/remotes/origin/*'
  if [ -e ${HEAD_BUNDLE_INSIDE} ]; then
    g -c fetch.unpackLimit=1 fetch --quiet --force --no-tags --no-write-fetch-head --no-auto-maintenance --no-recurse-submodules \\
      ${HEAD_BUNDLE_INSIDE} "+${HEAD_REF}:${HEAD_REF}"
  else
    g update-ref ${HEAD_REF} "$head_commit"
  fi
  g cat-file -e "$head_commit^{commit}"
  g cat-file -e "$base_commit^{commit}"
}
rebase() {
  g -c rerere.enabled=false -c rebase.updateRefs=false rebase --merge --quiet --no-fork-point --no-autosquash \\
    --no-autostash --no-verify --no-rerere-autoupdate "$@" > /tmp/.switchyard-rebase-output 2>&1
}
# A retained checkout follows the tags of its base. A tag on other commits may be the agent's work, so it stays.
refresh_tags() {
  g for-each-ref --merged="$base_commit" --format='delete %(refname)' refs/tags | g update-ref --no-deref --stdin
  g fetch --quiet --no-write-fetch-head --no-auto-maintenance --no-recurse-submodules \\
    ${CACHE_INSIDE} "+refs/heads/$base:refs/remotes/origin/$base"
}
merges() { g rev-list --merges --max-count=${MERGES_LISTED_MAX} "$1..$head_commit"; }
# A rebase drops merge commits, and manual changes in them. If both sides merge without a conflict, the merged tree is
# restored. Otherwise the script cannot tell whether a change is lost, and sets lost=maybe.
lost=
onto() {
  rebase "$1" || return 1
  [ -n "$(merges "$1")" ] || return 0
  whole=$(g merge-tree --write-tree "$1" "$head_commit" 2> /dev/null) || { lost=maybe; return 0; }
  [ "$whole" != "$(g rev-parse 'HEAD^{tree}')" ] || return 0
  restored=$(echo "Keep what was changed in merges" | g commit-tree "$whole" -p HEAD) || return 1
  g reset --quiet --hard "$restored"
}
`

/**
 * $1 retained, fresh or aside, $2 base, $3 its commit, $4 head, $5 its commit, $6 origin, $7 name, $8 email,
 * $9 number
 *
 * A link in place of .git is refused. The state of an unfinished operation is deleted, because its changes are in the
 * tree that was saved before.
 */
export const PREPARE_SCRIPT = `${SCRIPT_START}
mode=$1 base=$2 base_commit=$3 head=$4 head_commit=$5 origin=$6 name=$7 email=$8 number=$9
${SHARED_FUNCTIONS}
preserve() {
  n=1 branch="switchyard/before-follow-up-$number"
  while g show-ref --verify --quiet "refs/heads/$branch"; do n=$((n + 1)); branch="switchyard/before-follow-up-$number-$n"; done
  g update-ref "refs/heads/$branch" "$1"
  answer branch "$branch"
}
# The worker may have pushed the same files with other messages.
is_known() {
  g merge-base --is-ancestor "$1" "$head_commit" || g merge-base --is-ancestor "$1" "$base_commit" ||
    g log --max-count=${COMMITS_SEARCHED_MAX} --format=%T "$head_commit" | grep -qx "$(g rev-parse "$1^{tree}")"
}
current_work() {
  was=$(g rev-parse --verify --quiet 'HEAD^{commit}') || return 0
  (
    export GIT_INDEX_FILE=/tmp/.switchyard-index
    cp .git/index "$GIT_INDEX_FILE" 2>/dev/null || :
    g add --all --ignore-errors > /dev/null 2>&1 || :
    tree=$(g write-tree)
    if [ "$tree" = "$(g rev-parse "$was^{tree}")" ]; then echo "$was"; else
      echo "What was left in the sandbox." | g commit-tree "$tree" -p "$was"
    fi
  )
}
if [ "$mode" = aside ]; then
  chmod -R u+rwX /work || :
  aside=$(mktemp -d "$HOME/before-follow-up-$number.XXXXXX")
  find /work -mindepth 1 -maxdepth 1 -exec mv -t "$aside" {} +
  answer folder "$aside"
fi
if [ "$mode" != retained ]; then
  # An attempt that failed may have left files.
  if [ -e /work/.git ]; then find /work -mindepth 1 -delete; fi
  g clone --quiet --no-hardlinks --single-branch --no-checkout --template= --branch "$base" -c user.name="$name" -c user.email="$email" ${CACHE_INSIDE} /work
fi
cd /work
[ -d .git ] && [ ! -L .git ]
mkdir -p .git/hooks .git/info
g config remote.origin.url "$origin"
here=
if [ "$mode" = retained ]; then here=$(current_work); fi
fetch_both
if [ "$mode" = retained ]; then refresh_tags; fi
if [ -n "$here" ] && ! is_known "$here"; then preserve "$here"; fi
other=$(g rev-parse --verify --quiet "refs/heads/$head^{commit}") || other=
if [ "$mode" = retained ] && [ -n "$other" ] && ! is_known "$other" && ! g merge-base --is-ancestor "$other" "\${here:-$head_commit}"; then preserve "$other"; fi
rm -rf .git/rebase-merge .git/rebase-apply .git/sequencer
rm -f .git/MERGE_HEAD .git/MERGE_MSG .git/MERGE_MODE .git/AUTO_MERGE .git/CHERRY_PICK_HEAD .git/REVERT_HEAD .git/REBASE_HEAD .git/BISECT_*
g checkout --quiet --force --detach "$head_commit" || { rm -f .git/index; g checkout --quiet --force --detach "$head_commit"; }
if [ "$mode" = retained ]; then g clean -fdq; fi
g checkout --quiet --ignore-other-worktrees --no-track -B "$head" "$head_commit"
if ! g merge-base "$base_commit" "$head_commit" > /dev/null; then answer state unrelated; exit 0; fi
if g merge-base --is-ancestor "$base_commit" HEAD; then answer state current; answer tip "$head_commit"; exit 0; fi
answer_merges() { merges "$base_commit" | sed 's/^/${ANSWER_PREFIX}merge /'; }
if onto "$base_commit"; then
  answer state rebased
  answer tip "$(g rev-parse HEAD)"
  if [ -n "$lost" ]; then answer_merges; fi
  exit 0
fi
if [ -d .git/rebase-merge ] && [ -n "$(g ls-files --unmerged | head -c 1)" ]; then
  answer state conflict
  answer_merges
  g -c core.quotePath=true diff --name-only --diff-filter=U | head -n ${FILES_LISTED_MAX} | sed 's/^/${ANSWER_PREFIX}file /'
  exit 0
fi
tail -n 5 /tmp/.switchyard-rebase-output >&2
exit 1
`

/** $1 base's commit, $2 branch, $3 the commit that counts as no work, if any, $4 message, $5 name, $6 email, $7 the bundle */
export const COLLECT_FOLLOW_UP_SCRIPT = `${SCRIPT_START}
base=$1 head=$2 unchanged=$3 message=$4 name=$5 email=$6
${GIT_FUNCTION}
cd /work
state=$(g rev-parse --absolute-git-dir)
${DROP_LEFT_LOCKS}if [ -d "$state/rebase-merge" ] || [ -d "$state/rebase-apply" ]; then answer state unfinished; exit 0; fi
if [ -n "$(g ls-files --unmerged | head -c 1)" ]; then answer state unmerged; exit 0; fi
${COMMIT_LEFTOVERS}
tip=$(g rev-parse --verify 'HEAD^{commit}')
if [ "$tip" = "$unchanged" ] && g merge-base --is-ancestor "$base" "$tip"; then answer state same; exit 0; fi
if g merge-base --is-ancestor "$tip" "$base"; then answer state nothing; exit 0; fi
if ! g merge-base --is-ancestor "$base" "$tip"; then answer state astray; exit 0; fi
answer state new
g update-ref ${OUT_REF} "$tip"
g bundle create --quiet ${EXCHANGE_INSIDE}/$7 ${OUT_REF} "^$base"
`

/**
 * Moves our work onto a branch that changed on the code host meanwhile. If our own agent pushed it, our work already
 * contains it. Otherwise their branch is rebased as ours was, and the agent's commits follow. If the agent itself did
 * the rebase, their commits are put on top of ours, provided that they only added commits.
 *
 * $1 base, $2 its newest commit, $3 the base's commit that our work is on, $4 head, $5 its newest commit, $6 the one that our
 * work began from, $7 where it stood after the rebase, or nothing, $8 name, $9 email
 */
export const MOVE_ONTO_SCRIPT = `${SCRIPT_START}
base=$1 base_commit=$2 old_base=$3 head=$4 head_commit=$5 old_head=$6 tip=$7 name=$8 email=$9
${SHARED_FUNCTIONS}
cd /work
fetch_both
ours=$(g rev-parse --verify 'HEAD^{commit}')
undone() {
  if [ -d .git/rebase-merge ]; then g rebase --quit; fi
  g checkout --quiet --force --detach "$ours"
  return 1
}
is_tip() { [ "$ours" = "$tip" ]; }
theirs_is_ours() {
  g merge-base --is-ancestor "$head_commit" "$old_head" && return 1
  # Somebody reset the branch to before our work.
  g merge-base --is-ancestor "$head_commit" "$old_base" && return 1
  g merge-base --is-ancestor "$old_base" "$head_commit" || return 1
  g merge-base --is-ancestor "$head_commit" "$ours" || return 1
  answer branch ours
  answer base "$old_base"
  if [ -n "$tip" ]; then answer tip "$tip"; fi
}
ours_after_theirs() {
  [ -n "$tip" ] || return 1
  is_tip || g merge-base --is-ancestor "$tip" "$ours" || return 1
  g checkout --quiet --detach "$head_commit" || undone || return 1
  if ! g merge-base --is-ancestor "$base_commit" HEAD; then onto "$base_commit" || undone || return 1; fi
  [ -z "$lost" ] || undone || return 1
  new_tip=$(g rev-parse HEAD)
  if ! is_tip; then
    g checkout --quiet --detach "$ours" || undone || return 1
    rebase --onto "$new_tip" "$tip" || undone || return 1
  fi
  answer base "$base_commit"
  answer tip "$new_tip"
}
theirs_after_ours() {
  g merge-base --is-ancestor "$old_head" "$head_commit" || return 1
  [ -z "$(g rev-list --merges "$old_head..$head_commit" | head -n 1)" ] || return 1
  [ "$(g rev-list --count "$old_head..$head_commit")" = "$(g rev-list --count "$head_commit" "^$old_head" "^$base_commit")" ] || return 1
  g checkout --quiet --detach "$head_commit" || undone || return 1
  rebase --onto "$ours" "$old_head" || undone || return 1
  answer base "$old_base"
}
if theirs_is_ours || ours_after_theirs || theirs_after_ours; then
  g checkout --quiet --ignore-other-worktrees --no-track -B "$head" HEAD
  answer state moved
else
  g checkout --quiet --force --ignore-other-worktrees --no-track -B "$head" "$ours"
  answer state clash
fi
`
