/**
 * Chooses the repository for a ticket's work.
 *
 * The choice tries, in this order: the key that the ticket names, a mapping for one of its labels, a mapping for its
 * project, the one mapping without conditions. A ticket that names an unknown key, or that fits two mappings equally
 * well, is refused: a pull request in the wrong repository is worse than a message that says what to change.
 */
import type { RepoMapping, ServiceConfig } from '../../protocol/config.ts'
import type { Ticket } from '../../protocol/run.ts'
import { printable } from '../../protocol/schema-errors.ts'
import { no, type Refused, type Result, yes } from '../result.ts'
import { formatNames, isSameName } from './names.ts'

export interface RepoChoice {
  readonly key: string
  readonly mapping: RepoMapping
}

/** The repository of a ticket, or why there is none. */
export type RepoVerdict =
  | { readonly is: 'chosen'; readonly choice: RepoChoice }
  | { readonly is: 'none configured' | 'unmatched' }
  | { readonly is: 'unknown key'; readonly key: string }
  | { readonly is: 'ambiguous'; readonly choices: readonly RepoChoice[] }

export function chooseRepo(ticket: Ticket, repos: ServiceConfig['repos']): Result<RepoChoice> {
  const verdict = judgeRepo(ticket, repos)
  if (verdict.is === 'chosen') return yes(verdict.choice)
  if (verdict.is === 'ambiguous') return refuseAmbiguous(ticket, verdict.choices)
  const { all } = choicesOf(repos)
  if (verdict.is === 'none configured')
    return refuseNone(ticket, 'add one under repos, such as {"web": {"remote": "owner/web"}}')
  return verdict.is === 'unknown key'
    ? refuseUnknownKey(ticket, verdict.key, all)
    : refuseUnmatched(ticket, all)
}

export function judgeRepo(ticket: Ticket, repos: ServiceConfig['repos']): RepoVerdict {
  const { all, withLabel, withProject, forEverything } = choicesOf(repos)
  if (all.length === 0) return { is: 'none configured' }
  const { repo: key } = ticket
  if (key !== undefined) {
    const choice = all.find((candidate) => candidate.key === key)
    return choice === undefined ? { is: 'unknown key', key } : { is: 'chosen', choice }
  }
  let choices = matchingLabels(ticket, withLabel)
  if (choices.length === 0) choices = matchingProject(ticket, withProject)
  if (choices.length === 0) choices = forEverything
  const [choice] = choices
  if (choice === undefined) return { is: 'unmatched' }
  return choices.length === 1 ? { is: 'chosen', choice } : { is: 'ambiguous', choices }
}

/** Returns the ticket as people see it: with the key of the repository that its labels or its project choose. */
export function withRepo(ticket: Ticket, repos: ServiceConfig['repos']): Ticket {
  if (ticket.repo !== undefined) return ticket
  const verdict = judgeRepo(ticket, repos)
  return verdict.is === 'chosen' ? { ...ticket, repo: verdict.choice.key } : ticket
}

/** The configured repositories, sorted by what they ask of a ticket. */
interface RepoChoices {
  readonly all: readonly RepoChoice[]
  readonly withLabel: readonly RepoChoice[]
  readonly withProject: readonly RepoChoice[]
  readonly forEverything: readonly RepoChoice[]
}

/** A configuration is never changed in place, and every run asks several times. */
const choicesByRepos = new WeakMap<ServiceConfig['repos'], RepoChoices>()

function choicesOf(repos: ServiceConfig['repos']): RepoChoices {
  const known = choicesByRepos.get(repos)
  if (known !== undefined) return known
  const all = Object.entries(repos).map(([key, mapping]) => ({ key, mapping }))
  const choices: RepoChoices = {
    all,
    withLabel: all.filter(({ mapping }) => mapping.label !== undefined),
    withProject: all.filter(({ mapping }) => mapping.trackerProject !== undefined),
    forEverything: all.filter(
      ({ mapping }) => mapping.label === undefined && mapping.trackerProject === undefined,
    ),
  }
  choicesByRepos.set(repos, choices)
  return choices
}

// ---- matching ----------------------------------------------------------------------------------------------------

const NONE: readonly RepoChoice[] = []

/** Prefers, among several matches, a mapping for the ticket's project. */
function matchingLabels({ labels, project }: Ticket, from: readonly RepoChoice[]): readonly RepoChoice[] {
  if (from.length === 0 || labels.length === 0) return NONE
  const fits = from.filter(
    ({ mapping: { label } }) => label !== undefined && labels.some((name) => isSameName(name, label)),
  )
  return preferBetter(fits, (choice) => isForProject(choice, project))
}

/** Prefers, among several matches, a mapping that requires no label, because the ticket does not have that label. */
function matchingProject({ project }: Ticket, from: readonly RepoChoice[]): readonly RepoChoice[] {
  if (from.length === 0 || project === undefined) return NONE
  return preferBetter(
    from.filter((choice) => isForProject(choice, project)),
    ({ mapping }) => mapping.label === undefined,
  )
}

function isForProject({ mapping: { trackerProject } }: RepoChoice, project: string | undefined): boolean {
  return trackerProject !== undefined && project !== undefined && isSameName(trackerProject, project)
}

/** Returns the better choices, or all when none is better. */
function preferBetter(
  fits: readonly RepoChoice[],
  isBetter: (choice: RepoChoice) => boolean,
): readonly RepoChoice[] {
  const better = fits.filter(isBetter)
  return better.length === 0 ? fits : better
}

// ---- refusals ----------------------------------------------------------------------------------------------------

function refuseUnmatched(ticket: Ticket, all: readonly RepoChoice[]): Refused {
  const labels = all.flatMap(({ mapping }) => mapping.label ?? [])
  const projects = all.flatMap(({ mapping }) => mapping.trackerProject ?? [])
  const cures = [
    ...(labels.length === 0 ? [] : [`give it a label (${formatNames(labels)})`]),
    ...(projects.length === 0 ? [] : [`put it into a project (${formatNames(projects)})`]),
    'leave label and trackerProject out of the one mapping under repos that is for everything else',
  ]
  return refuseNone(ticket, cures.join(', or '))
}

function refuseUnknownKey(ticket: Ticket, key: string, all: readonly RepoChoice[]): Refused {
  return refuseNone(
    ticket,
    `the ticket names ${printable(key)}, which is not a key under repos; use one of ${formatKeys(all)}, or add it`,
  )
}

/** The refusal without its cure. */
export const repoRefusalReason = (ticket: Ticket, verdict: Exclude<RepoVerdict, { is: 'chosen' }>): string =>
  verdict.is === 'ambiguous' ? ambiguityOf(ticket, verdict.choices) : `no repository is for ${nameOf(ticket)}`

function refuseNone(ticket: Ticket, cure: string): Refused {
  return no('invalid', `no repository is for ${nameOf(ticket)}: ${cure}`)
}

const refuseAmbiguous = (ticket: Ticket, found: readonly RepoChoice[]): Refused =>
  no('invalid', ambiguityOf(ticket, found))

const ambiguityOf = (ticket: Ticket, found: readonly RepoChoice[]): string =>
  `${found.length} repositories fit ${nameOf(ticket)}: ${formatKeys(found)}`

const formatKeys = (choices: readonly RepoChoice[]): string => formatNames(choices.map(({ key }) => key))

const nameOf = ({ identifier }: Ticket): string => printable(identifier)
