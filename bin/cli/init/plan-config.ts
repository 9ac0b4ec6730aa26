/**
 * Turns the answers of `switchyard init` into a patch of the configuration, and into lines that say what it changes.
 *
 * Nothing starts after `init`, because the patch pauses the dispatch. What is configured already and was not asked for
 * stays as it is.
 */
import { patchOf, readSetting } from '../../../client/settings.ts'
import { isJsonEqual } from '../../../core/settings/json-values.ts'
import { isSameName } from '../../../core/tickets/names.ts'
import type { AgentProvider } from '../../../protocol/agents/registry.ts'
import type { CompletedConfig, ServiceConfig } from '../../../protocol/config.ts'
import { isFolder, TRACKER_FACTS, type TrackerDriverName } from '../../../protocol/drivers.ts'
import { mergePatch } from '../../../protocol/merge-patch.ts'

/** `init` writes it as `agent.maxCostUsd`. */
const FIRST_RUN_COST_USD_MAX = 20

/** The rule by which tickets become runs. */
export type StartRule = { readonly is: 'all' } | { readonly is: 'state' | 'label'; readonly name: string }

export interface InitAnswers {
  readonly driver: TrackerDriverName
  /** `owner/name`. */
  readonly repository: string
  readonly starts: StartRule
  /** The folder of the tickets; only for a tracker that works on a folder. */
  readonly folder?: string
  /** The agent that was found on this machine. */
  readonly agent?: AgentProvider | undefined
}

export interface PlannedConfig {
  readonly patch: unknown
  /** `tracker.driver = "github"`, for each setting that changes. */
  readonly changes: readonly string[]
  readonly repoKey: string
}

type Setting = readonly [key: readonly string[], value: unknown]

export function planConfig(current: CompletedConfig, answers: InitAnswers): PlannedConfig {
  const { driver, repository, folder, agent } = answers
  const repoKey = repoKeyFor(repository, current.effective.repos)
  const settings: readonly Setting[] = [
    [['tracker', 'driver'], driver],
    ...(folder === undefined ? [] : [[['tracker', 'path'], folder] as const]),
    ...eligibleSettings(answers, current.effective),
    ...agentSetting(current, agent),
    ...costSetting(current),
    [['repos', repoKey, 'remote'], repository],
    [['policy', 'paused'], true],
  ]
  const changed = settings.filter(([key, value]) => !isJsonEqual(readSetting(current.stored, key), value))
  const patch = changed.reduce<unknown>((whole, [key, value]) => mergePatch(whole, patchOf(key, value)), {})
  return { patch, changes: changed.map(describeSetting), repoKey }
}

/**
 * A tracker of a repository's issues has labels as its states, and a label that is a state is no label of the ticket.
 * So the label that starts an issue is a state there.
 */
function eligibleSettings({ driver, starts }: InitAnswers, { tracker }: ServiceConfig): readonly Setting[] {
  const labelsAreStates = TRACKER_FACTS[driver].listsRepositoryIssues === true
  const isLabel = starts.is === 'label' && !labelsAreStates
  const states = starts.is === 'all' || isLabel ? [] : [starts.name]
  const labels = isLabel ? [starts.name] : []
  const { eligible } = tracker
  return [
    // A label narrows the states; without an answer about them they stay.
    ...(isLabel ? [] : [[['tracker', 'eligible', 'states'], states] as const]),
    ...(isJsonEqual(eligible.labels, labels) ? [] : [[['tracker', 'eligible', 'labels'], labels] as const]),
  ]
}

/** A configured agent stays. */
function agentSetting({ stored, effective }: CompletedConfig, agent: AgentProvider | undefined): Setting[] {
  if (agent === undefined || stored.agent?.provider !== undefined) return []
  return agent === effective.agent.provider ? [] : [[['agent', 'provider'], agent]]
}

/** The first run is bounded while nobody has said what one may cost. */
const costSetting = ({ stored }: CompletedConfig): Setting[] =>
  stored.agent?.maxCostUsd === undefined ? [[['agent', 'maxCostUsd'], FIRST_RUN_COST_USD_MAX]] : []

/** The repository's name; with its owner where another repository has that key. */
function repoKeyFor(repository: string, repos: ServiceConfig['repos']): string {
  const known = Object.entries(repos).find(([, { remote }]) => isSameName(remote, repository))
  if (known !== undefined) return known[0]
  // A key that begins with a dot could not be written as a part of a setting's name.
  const name = repository.slice(repository.indexOf('/') + 1).replace(/^\.+/, '')
  const numbered = Object.keys(repos).map((_, at) => `${name}-${at + 2}`)
  const keys = [name, repository.replace('/', '-'), ...numbered].filter((key) => key !== '')
  return keys.find((key) => !Object.hasOwn(repos, key)) ?? name
}

function describeSetting([key, value]: Setting): string {
  if (key[0] === 'repos') return `repos.${key[1]} = {"remote": ${JSON.stringify(value)}}`
  return `${key.join('.')} = ${JSON.stringify(value)}`
}

/** The repositories among which a ticket without a label or a project can't choose; none where it needs no choice. */
export function findAmbiguousRepos({ tracker, repos }: ServiceConfig): readonly string[] {
  // An issue belongs to its repository.
  if (TRACKER_FACTS[tracker.driver].listsRepositoryIssues === true) return []
  const unconditional = Object.entries(repos).filter(
    ([, { label, trackerProject }]) => label === undefined && trackerProject === undefined,
  )
  return unconditional.length > 1 ? unconditional.map(([key]) => key) : []
}

export const needsFolder = (driver: TrackerDriverName): boolean => isFolder(TRACKER_FACTS[driver])
