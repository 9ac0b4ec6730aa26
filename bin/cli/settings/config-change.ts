/**
 * `switchyard config set` and `config unset`: change one setting of the running host.
 *
 * A secret is never an argument, because other users of the machine can read arguments. The host checks a credential
 * with its provider and keeps it only when it works.
 */
import { agentsForPeople, agentsForWire, withAgentNames } from '../../../client/agent-names.ts'
import { HostRefusal, withoutControls } from '../../../client/errors.ts'
import {
  type CredentialRequestField,
  formatSetting,
  keysToConfirm,
  patchOf,
  readSetting,
  refusalOf,
  settingSentence,
} from '../../../client/settings.ts'
import { ERROR_VALUE_CHARS_MAX } from '../../../protocol/limits.ts'
import { describePower } from '../../../protocol/powerful-keys.ts'
import { quoteWord } from '../../../protocol/quote-word.ts'
import type { SettingsUpdateResponse } from '../../../protocol/routes.ts'
import { refusedError, usageError } from '../../process/exit.ts'
import type { ClientOptions, CommandContext } from '../command/run-command.ts'
import { kindOfSetting, splitKey } from './setting-keys.ts'

interface ConfigChangeOptions extends ClientOptions {
  readonly confirm?: string | undefined
}

type ConfigChangeContext = CommandContext<ConfigChangeOptions>

export async function set(
  context: ConfigChangeContext,
  key: string,
  text: string | undefined,
): Promise<void> {
  const { client, questions } = context
  const kind = kindOfSetting(key)
  const parts = splitKey(await client.readConfig(), key)
  if (kind.is === 'plain') {
    if (text === undefined)
      throw usageError(`the value of ${key} is missing`, `switchyard config set ${key} VALUE`)
    const again = `switchyard config set ${quoteWord(key)} ${quoteWord(text)}`
    printChange(
      context,
      key,
      parts,
      await changeSettings(context, patchOf(parts, agentsForWire(parts, parseValue(text))), again, {
        key: parts.join('.'),
        text,
      }),
    )
    return
  }
  if (text !== undefined)
    throw usageError(
      `${key} is a secret, and other users can read arguments; nothing was changed`,
      `switchyard config set ${key} < FILE`,
    )
  const secret = await questions.askSecret(`the value of ${key}`)
  if (kind.is === 'credential') await changeCredential(context, key, kind.field, secret)
  else
    printChange(context, key, parts, await client.changeSettings({ body: { patch: patchOf(parts, secret) } }))
}

export async function unset(context: ConfigChangeContext, key: string): Promise<void> {
  const { client, questions, options } = context
  const kind = kindOfSetting(key)
  const parts = splitKey(await client.readConfig(), key)
  if (kind.is !== 'plain')
    await questions.confirmLoss({
      loss: `this deletes the secret ${key}`,
      yes: options.yes,
      command: `switchyard config unset ${key}`,
    })
  if (kind.is === 'credential') await changeCredential(context, key, kind.field, '')
  else
    printChange(
      context,
      key,
      parts,
      await changeSettings(context, patchOf(parts, null), `switchyard config unset ${quoteWord(key)}`),
    )
}

/**
 * Sends the patch. When the host names settings that give power over the machine, the person at the terminal confirms
 * them; elsewhere the option `--confirm` does, and never `--yes`.
 *
 * @param again the command line, without its options
 */
async function changeSettings(
  { client, questions, options, output }: ConfigChangeContext,
  patch: Record<string, unknown>,
  again: string,
  given?: GivenText,
): Promise<SettingsUpdateResponse> {
  try {
    return await client.changeSettings({ body: { patch } })
  } catch (error) {
    const confirm = keysToConfirm(error)
    if (confirm === undefined) throw nameSetting(error, given)
    const keys = confirm.map(withoutControls)
    const sentence = describePower(keys)
    if (options.confirm === undefined && questions.mayAsk) {
      // The sentence describes the first few keys only.
      if (keys.length > 1) output.note(`This changes ${keys.join(', ')}.`)
      if (!(await questions.confirm(`${sentence}. Change it?`, false)))
        throw refusedError('nothing was changed')
    } else if (!namesExactly(options.confirm, keys))
      throw refusedError(
        `${sentence}, so this needs a confirmation; nothing was changed`,
        `${again} --confirm ${quoteWord(keys.join(','))}`,
      )
    return client.changeSettings({ body: { patch, confirm } })
  }
}

/** The host names a setting by its place in the request, `/patch/sandbox/concurrency`. */
function nameSetting(error: unknown, given: GivenText | undefined): unknown {
  if (!(error instanceof HostRefusal)) return error
  const { key } = refusalOf(error.message)
  const sentence = withAgentNames(settingSentence(error.message))
  // The host tells the kind of a wrong text, because a text may be a secret; this one was an argument.
  error.message = sentence.replace(/, not a string$/, (end) =>
    given === undefined || given.key !== key
      ? end
      : `, not ${JSON.stringify(given.text.slice(0, ERROR_VALUE_CHARS_MAX))}`,
  )
  return error
}

/** The argument of a command line for one setting. */
interface GivenText {
  readonly key: string
  readonly text: string
}

/** The key of a repository may hold commas, so the whole text is compared first. */
function namesExactly(text: string | undefined, keys: readonly string[]): boolean {
  if (text === undefined || text === keys.join(',')) return text !== undefined
  const named = text.split(',').filter((key) => key !== '')
  return keys.every((key) => named.includes(key)) && named.every((key) => keys.includes(key))
}

/** JSON where the text is JSON, and otherwise the text itself. */
function parseValue(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

function printChange(
  { output }: CommandContext,
  key: string,
  parts: readonly string[],
  answer: SettingsUpdateResponse,
): void {
  const { config, applied } = answer
  if (output.format === 'json') output.json(answer)
  else if (output.format === 'id') output.data(key)
  else {
    const value = readSetting(config, parts)
    output.data(
      output.stdout.clean(
        value === undefined
          ? `${key} is not set`
          : `${key} = ${formatSetting(agentsForPeople(parts, value))}`,
      ),
    )
  }
  if (applied === 'restart') output.note('The host uses it from its next start on.')
}

/** @param secret an empty one disconnects */
async function changeCredential(
  { client, output }: CommandContext,
  key: string,
  field: CredentialRequestField,
  secret: string,
): Promise<void> {
  const answer = await client.changeCredentials({ body: { [field]: secret } })
  const [result] = Object.values(answer.results)
  if (result?.ok === false) throw refusedError(`${key} was not changed: ${result.detail}`)
  output.outcome(answer, key, `${key}: ${result?.detail ?? 'changed'}`)
}
