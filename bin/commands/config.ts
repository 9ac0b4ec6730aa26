/** `switchyard config get`: the settings in force, all of them, a section, or one. */
import { formatSetting, listSettings, readSetting } from '../../client/settings.ts'
import type { CommandContext } from '../client/run-command.ts'
import { splitKey } from '../client/setting-keys.ts'
import { EXIT, ExitError } from '../exit.ts'

export async function get({ client, output }: CommandContext, key?: string): Promise<void> {
  const config = await client.readConfig()
  const parts = key === undefined ? [] : splitKey(config, key)
  const value = readSetting(config, parts)
  if (value === undefined) throw new ExitError(EXIT.refused, `${key} is not set`, 'switchyard config get')
  const isSection = typeof value === 'object' && !Array.isArray(value)
  if (output.format === 'table' && !isSection) {
    output.data(formatSetting(value))
    return
  }
  output.list({
    records: listSettings(value, parts),
    json: value,
    id: ([name]) => name,
    columns: [
      { heading: 'KEY', cell: ([name]) => name },
      { heading: 'VALUE', cell: ([, each]) => formatSetting(each), shrinksTo: 12, shrinks: 'end' },
    ],
    empty: `${key ?? 'The configuration'} holds no setting.`,
  })
}
