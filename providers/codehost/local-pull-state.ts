/**
 * Pull requests of the local code host beside the branches they are of.
 *
 * To look is also to remember: where an open one's branch is goes to `refs/pull/<number>/`, as long as it has
 * something that its base has not. So what is found in its base branch later came in from there, by hand or by a merge
 * that a crash cut short before the file said so: then it is merged, and its file is made to say it. A branch that
 * never had anything of its own is not taken for merged.
 *
 * What cannot be remembered, in a repository that may only be read, is not: everything else is right all the same.
 */

import type { Clock } from '../../core/ports.ts'
import type { PullDetailFacts, PullFacts } from '../../core/provider-ports.ts'
import { type Result, yes } from '../../core/result.ts'
import { type Changes, changesBetween } from './git-files.ts'
import { tryMerge } from './git-merge.ts'
import {
  branchRef,
  commitsBetween,
  emptyTree,
  instantAt,
  type Memory,
  memoryRef,
  mergeBaseOf,
  moveRefs,
  type RefMove,
  type Refs,
  refsOf,
} from './git-repository.ts'
import type { RunGit } from './git-run.ts'
import { isOpen, merged, stateOf } from './local-pull-actions.ts'
import type { DatedPull } from './local-pull-file.ts'
import type { PullFolder } from './pull-folder.ts'

export interface LocalRepository {
  readonly folder: PullFolder
  readonly run: RunGit
  /** How a pull request is opened to be read. */
  readonly urlOf: (number: number) => string
}

export interface Sight {
  readonly pulls: readonly DatedPull[]
  readonly refs: Refs
}

/** The two ends of a pull request, by hash; undefined when a branch is gone and nothing is remembered of it. */
export interface Ends {
  readonly base?: string
  readonly head?: string
}

type SightClock = Pick<Clock, 'now' | 'after'>

const NOBODY = 'unknown'
const UNCHANGED: Changes = { files: [], additions: 0, deletions: 0, changedFiles: 0 }

export async function sightOf(
  repository: LocalRepository,
  pulls: readonly DatedPull[],
  clock: SightClock,
): Promise<Result<Sight>> {
  const refs = await refsOf(repository.run)
  if (!refs.ok) return refs
  const open = pulls.filter(isOpen)
  const held = await heldBy(repository.run, open, refs.value)
  if (!held.ok) return held
  const isIn = (pull: DatedPull) => cameIn(pull, refs.value, held.value(pull))
  await remember(
    repository.run,
    open.map((pull) => memoriesOf(pull, refs.value, held.value(pull))).filter(({ length }) => length > 0),
  )
  const at = instantAt(clock.now())
  const settled = pulls.map(async (pull) => {
    if (!isOpen(pull) || !isIn(pull)) return pull
    const written = await repository.folder.change(pull.number, (now) => merged(now, at), clock)
    // It is merged whether or not its file can be made to say so.
    return written.ok ? written.value : orItself(merged(pull, at), pull)
  })
  return yes({ pulls: await Promise.all(settled), refs: refs.value })
}

/** What is open has its branches as they are; what is over, as they were. */
export function endsOf(pull: DatedPull, refs: Refs): Ends {
  const [live, kept] = [
    { base: refs.get(branchRef(pull.baseBranch))?.sha, head: refs.get(branchRef(pull.headBranch))?.sha },
    {
      base: refs.get(memoryRef(pull.number, 'base'))?.sha,
      head: refs.get(memoryRef(pull.number, 'head'))?.sha,
    },
  ]
  const [first, second] = isOpen(pull) ? [live, kept] : [kept, live]
  const [base, head] = [first.base ?? second.base, first.head ?? second.head]
  return { ...(base === undefined ? {} : { base }), ...(head === undefined ? {} : { head }) }
}

// ---- as records --------------------------------------------------------------------------------------------------

export function factsOf(pull: DatedPull, refs: Refs, url: string, now: number): PullFacts {
  const { number, title, author = NOBODY, baseBranch, headBranch, createdAt, updatedAt } = pull
  const state = stateOf(pull)
  const head = isOpen(pull) ? refs.get(branchRef(headBranch)) : undefined
  // A commit may claim to be of tomorrow, and would stay on top until then.
  const pushedAt = head === undefined ? updatedAt : instantAt(Math.min(head.at, now))
  return {
    number,
    url,
    title,
    state,
    author,
    baseBranch,
    headBranch,
    createdAt,
    updatedAt: pushedAt > updatedAt ? pushedAt : updatedAt,
    ...(state === 'merged' ? { mergedAt: pull.mergedAt ?? updatedAt } : {}),
  }
}

export async function detailOf(
  run: RunGit,
  pull: DatedPull,
  facts: PullFacts,
  refs: Refs,
): Promise<Result<PullDetailFacts>> {
  const { base, head } = endsOf(pull, refs)
  const [changes, commits, mergeableState] = await Promise.all([
    base === undefined || head === undefined ? yes(UNCHANGED) : changesOf(run, base, head),
    base === undefined || head === undefined ? yes([]) : commitsBetween(run, base, head),
    mergeableStateOf(run, pull, refs),
  ])
  if (!changes.ok) return changes
  if (!commits.ok) return commits
  const { comments = [], reviews = [], threads = [] } = pull
  return yes({
    ...facts,
    body: pull.body ?? '',
    draft: stateOf(pull) === 'draft' || (!isOpen(pull) && pull.draft === true),
    headSha: head ?? '',
    mergeableState,
    additions: changes.value.additions,
    deletions: changes.value.deletions,
    changedFiles: changes.value.changedFiles,
    conversation: { comments, reviews, threads },
    files: [...changes.value.files],
    commits: commits.value,
    checks: [],
  })
}

/** As people compare branches: from where they parted. Without a common history, all of it is new. */
async function changesOf(run: RunGit, base: string, head: string): Promise<Result<Changes>> {
  const parted = await mergeBaseOf(run, base, head)
  if (!parted.ok) return parted
  const from = parted.value === undefined ? await emptyTree(run) : yes(parted.value)
  return from.ok ? changesBetween(run, from.value, head) : from
}

/** In GitHub's words. `behind`: its base has all that it has, and more. */
async function mergeableStateOf(run: RunGit, pull: DatedPull, refs: Refs): Promise<string> {
  const [base, head] = [refs.get(branchRef(pull.baseBranch))?.sha, refs.get(branchRef(pull.headBranch))?.sha]
  if (!isOpen(pull) || base === undefined || head === undefined) return 'unknown'
  const [parted, tried] = await Promise.all([mergeBaseOf(run, base, head), tryMerge(run, base, head)])
  if (!tried.ok) return tried.refusal.kind === 'conflict' ? 'blocked' : 'unknown'
  if (tried.value.is === 'dirty') return 'dirty'
  if (stateOf(pull) === 'draft') return 'draft'
  return parted.ok && parted.value === head ? 'behind' : 'clean'
}

// ---- what has come in --------------------------------------------------------------------------------------------

type Held = (pull: DatedPull) => Refs | undefined

/** What each base branch holds; undefined for one that is gone. */
async function heldBy(run: RunGit, open: readonly DatedPull[], refs: Refs): Promise<Result<Held>> {
  const bases = new Set(open.flatMap(({ baseBranch }) => refs.get(branchRef(baseBranch))?.sha ?? []))
  const asked = await Promise.all([...bases].map(async (base) => [base, await refsOf(run, base)] as const))
  const held = new Map<string, Refs>()
  for (const [base, answer] of asked) {
    if (!answer.ok) return answer
    held.set(base, answer.value)
  }
  return yes(({ baseBranch }) => held.get(refs.get(branchRef(baseBranch))?.sha ?? ''))
}

function cameIn({ number, headBranch }: DatedPull, refs: Refs, held: Refs | undefined): boolean {
  const head = refs.get(branchRef(headBranch))?.sha
  const remembered = refs.get(memoryRef(number, 'head'))?.sha
  if (held === undefined || remembered === undefined) return false
  const isStill = head === undefined || head === remembered
  if (isStill && held.has(memoryRef(number, 'merged'))) return true
  return held.has(memoryRef(number, 'head')) && (head === undefined || held.has(branchRef(headBranch)))
}

/** Only from where they were seen: whoever merged it meanwhile knows better. */
function memoriesOf(
  { number, baseBranch, headBranch }: DatedPull,
  refs: Refs,
  held: Refs | undefined,
): RefMove[] {
  const [base, head] = [refs.get(branchRef(baseBranch))?.sha, refs.get(branchRef(headBranch))?.sha]
  if (held === undefined || base === undefined || head === undefined) return []
  const was = (what: Memory) => refs.get(memoryRef(number, what))?.sha
  if (held.has(branchRef(headBranch)) || was('head') === head) return []
  const move = (what: Memory, to: string | undefined) => ({
    name: memoryRef(number, what),
    to,
    from: was(what),
  })
  // With something new in it, it has not been merged, whatever its number once stood for.
  const forgotten = was('merged') === undefined ? [] : [move('merged', undefined)]
  return [move('head', head), move('base', base), ...forgotten]
}

/** In one go; one that does not let itself be remembered takes no other down with it. */
async function remember(run: RunGit, each: readonly (readonly RefMove[])[]): Promise<void> {
  if (each.length === 0) return
  const done = await moveRefs(run, each.flat())
  if (done.ok || each.length === 1) return
  for (const moves of each) await moveRefs(run, moves)
}

const orItself = (answer: Result<DatedPull>, pull: DatedPull): DatedPull => (answer.ok ? answer.value : pull)
