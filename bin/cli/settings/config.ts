/**
 * `switchyard config get` and `config describe`: the settings in force, those that are not set, and what each means.
 * `config path` says where they lie.
 */

import { join } from 'node:path'
import { agentsForPeople } from '../../../client/agent-names.ts'
import { formatSetting, listSettings, readSetting } from '../../../client/settings.ts'
import type { ListedSetting } from '../../../protocol/setting-list.ts'
import { wrapWords } from '../../output/text-width.ts'
import { resolveDataDir } from '../../process/data-dir.ts'
import { type ExitError, refusedError, usageError } from '../../process/exit.ts'
import type { CommandContext } from '../command/run-command.ts'
import { splitKey } from './setting-keys.ts'

const NAME_COLUMNS = 9
const MEANING_COLUMNS_MIN = 20

interface SettingRow {
  readonly key: string
  /** Undefined for a setting that is not set. */
  readonly value: unknown
  readonly setting: ListedSetting | undefined
}

export async function get({ client, output }: CommandContext, key?: string): Promise<void> {
  const config = await client.readConfig()
  const parts = key === undefined ? [] : splitKey(config, key)
  const value = readSetting(config, parts)
  const isSection = typeof value === 'object' && !Array.isArray(value)
  if (output.format === 'table' && value !== undefined && !isSection) {
    output.data(formatSetting(agentsForPeople(parts, value)))
    return
  }
  const settings = await readSettings()
  const rows = rowsBelow(settings, config, parts)
  if (value === undefined && rows.length === 0) throw notSet(settings, key ?? '', parts)
  output.list({
    records: output.format === 'table' ? rows : rows.filter((row) => row.value !== undefined),
    json: value ?? {},
    id: (row) => row.key,
    columns: [
      { heading: 'KEY', cell: (row) => row.key },
      { heading: 'VALUE', cell: shownValue, shrinksTo: 12, shrinks: 'end' },
      {
        heading: 'MEANING',
        cell: ({ setting }) => setting?.meaning ?? '-',
        shrinksTo: MEANING_COLUMNS_MIN,
        shrinks: 'end',
        givesWay: 1,
      },
    ],
    empty: `${key ?? 'The configuration'} holds no setting.`,
  })
}

export async function describe({ client, output }: CommandContext, key: string): Promise<void> {
  const config = await client.readConfig()
  const parts = splitKey(config, key)
  const setting = settingAt(await readSettings(), parts)
  if (setting === undefined) throw usageError(`there is no setting ${key}`, 'switchyard config get')
  const value = readSetting(config, parts)
  if (output.format === 'json') output.json({ ...setting, key, ...(value === undefined ? {} : { value }) })
  else if (output.format === 'id') output.data(key)
  else
    for (const [name, text] of factsOf(setting, parts, value)) {
      const columns = output.stdout.isTerminal ? output.stdout.width - NAME_COLUMNS : Infinity
      for (const [at, line] of wrapWords(text, columns).entries())
        output.data(`${(at === 0 ? name : '').padEnd(NAME_COLUMNS)}${line}`)
    }
}

async function readSettings(): Promise<readonly ListedSetting[]> {
  const { configSettings } = await import('./config-settings.ts')
  return configSettings()
}

// ---- rows ----------------------------------------------------------------------------------------------------------

/**
 * The settings that are set, with those that are not at their places. Below the repositories, of one repository alone.
 */
function rowsBelow(
  settings: readonly ListedSetting[],
  config: unknown,
  parts: readonly string[],
): SettingRow[] {
  const value = readSetting(config, parts)
  const set = value === undefined ? [] : listSettings(value, parts)
  const known = set.map(([key, each]) => ({
    key,
    value: each,
    setting: settingAt(settings, splitKey(config, key)),
  }))
  const unset = settings
    .filter((setting) => isBelow(setting, parts) && !known.some((row) => row.setting === setting))
    .map((setting) => ({ key: nameBelow(setting, parts), value: undefined, setting }))
    .filter(({ key }) => !key.includes('*'))
  const placeOf = ({ setting }: SettingRow) =>
    setting === undefined ? settings.length : settings.indexOf(setting)
  return [...known, ...unset].sort((a, b) => placeOf(a) - placeOf(b))
}

const nameBelow = ({ key }: ListedSetting, parts: readonly string[]): string =>
  [...parts, ...key.split('.').slice(parts.length)].join('.')

const isBelow = ({ key }: ListedSetting, parts: readonly string[]): boolean => {
  const words = key.split('.')
  return words.length > parts.length && fits(words, parts)
}

/** A star stands for the key of a repository. */
const fits = (words: readonly string[], parts: readonly string[]): boolean =>
  parts.every((part, at) => words[at] === '*' || words[at] === part)

/** The setting that holds the key: a group of texts is one setting. */
const settingAt = (settings: readonly ListedSetting[], parts: readonly string[]): ListedSetting | undefined =>
  settings.find(({ key }) => {
    const words = key.split('.')
    return words.length <= parts.length && fits(words, parts.slice(0, words.length))
  })

function shownValue({ key, value }: SettingRow): string {
  return value === undefined ? '-' : formatSetting(agentsForPeople(key.split('.'), value))
}

function notSet(settings: readonly ListedSetting[], key: string, parts: readonly string[]): ExitError {
  const setting = settingAt(settings, parts)
  return setting === undefined
    ? refusedError(`there is no setting ${key}`, 'switchyard config get')
    : refusedError(`${key} is not set`, `switchyard config describe ${key}`)
}

// ---- one setting ---------------------------------------------------------------------------------------------------

function factsOf(
  setting: ListedSetting,
  parts: readonly string[],
  value: unknown,
): (readonly [string, string])[] {
  const shown = (each: unknown) => formatSetting(agentsForPeople(parts, each))
  return [
    ['key', parts.join('.')],
    ['value', value === undefined ? 'not set' : shown(value)],
    ['default', setting.default === undefined ? 'not set' : shown(setting.default)],
    ['takes', describeValues(setting, parts)],
    ['meaning', setting.meaning],
    ...(setting.needsRestart === true ? [['change', 'from the next start of the host on'] as const] : []),
  ]
}

const KINDS: Readonly<Record<ListedSetting['kind'], string>> = {
  text: 'a text',
  lines: 'a text of several lines',
  number: 'a number',
  switch: 'true or false',
  choice: 'one of',
  list: 'a list, as JSON',
  group: 'JSON with',
  table: 'JSON',
  secret: 'a secret, from standard input',
  credential: 'a credential: connect writes it',
}

function describeValues(
  { kind, options, minimum, maximum }: ListedSetting,
  parts: readonly string[],
): string {
  const named = options?.map((option) => String(agentsForPeople(parts, option))).join(', ')
  const least = minimum === undefined ? [] : [`at least ${minimum}`]
  const most = maximum === undefined ? [] : [`at most ${maximum}`]
  return [[KINDS[kind], ...(named === undefined ? [] : [named])].join(' '), ...least, ...most].join(', ')
}

// ---- the file ------------------------------------------------------------------------------------------------------

/** `switchyard config path`: the file of a host on this machine. */
export async function path({ output, options }: CommandContext): Promise<void> {
  const file = fileOf(options.dataDir)
  if (output.format === 'json') output.json({ path: file })
  else output.data(file)
}

/** With an address in the environment the host may be on another machine. */
export function fileOf(dataDir: string | undefined): string {
  if ((process.env.SWITCHYARD_URL ?? '') !== '')
    throw usageError(
      'SWITCHYARD_URL names the host, and its file may be on another machine',
      'switchyard config set KEY VALUE, or unset SWITCHYARD_URL',
    )
  return join(resolveDataDir(dataDir), 'config.json')
}
