/** `switchyard config edit`: an editor for the file of a host on this machine, which is checked with the schema. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { settingSentence } from '../../../client/settings.ts'
import { readConfig } from '../../../core/settings/read.ts'
import { codeOf } from '../../../protocol/message-of.ts'
import { makeOwnerOnly } from '../../../store/data-folder.ts'
import { refusedError, usageError } from '../../process/exit.ts'
import { storeExitError } from '../../process/store-exit-code.ts'
import type { CommandContext } from '../command/run-command.ts'
import { findRunningHost } from '../service/running-host.ts'
import { fileOf } from './config.ts'

/** The exit code of shells. */
const COMMAND_NOT_FOUND = 127
const NOTHING_SET = '{}\n'

export async function configEdit({ output, options }: CommandContext): Promise<void> {
  const file = fileOf(options.dataDir)
  const chosen = process.env.VISUAL || process.env.EDITOR
  // An editor that a person chose may need no terminal; `vi` would draw on a pipe.
  if (!chosen && !(output.stdout.isTerminal && process.stdin.isTTY))
    throw usageError(
      'config edit needs a terminal, or an editor in VISUAL that needs none',
      'switchyard config set KEY VALUE',
    )
  const before = await readOrBegin(file)
  const editor = chosen || 'vi'
  // An editor may stand there with options, so a shell reads it.
  const child = spawn('/bin/sh', ['-c', `${editor} "$1"`, 'sh', file], { stdio: 'inherit' })
  const [code] = await once(child, 'close')
  if (code === COMMAND_NOT_FOUND)
    throw refusedError(`${editor} is no command here`, 'VISUAL=vi switchyard config edit')
  if (code !== 0) throw refusedError(`the editor ended with ${code ?? 'a signal'}: ${editor}`)
  const after = await readOrBegin(file)
  if (after === before) {
    output.note('Nothing was changed.')
    return
  }
  requireValid(after, file)
  if ((await findRunningHost(dirname(file))) === undefined) {
    output.note('The next start of the host uses it.')
    output.next('switchyard serve')
  } else {
    output.note('The host uses it after a second.')
    output.next('switchyard config get')
  }
}

/** A new data directory has no configuration yet, and an editor begins with one that sets nothing. */
async function readOrBegin(file: string): Promise<string> {
  const folder = dirname(file)
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw storeExitError(error, folder)
  }
  try {
    await makeOwnerOnly(folder, ['state'])
    await writeFile(file, NOTHING_SET, { flag: 'wx', mode: 0o600 })
    return NOTHING_SET
  } catch (error) {
    throw storeExitError(error, folder)
  }
}

/** A running host ignores a text with a fault, and does not start with one. */
function requireValid(text: string, file: string): void {
  const read = readConfig(text)
  if (read.ok) return
  throw refusedError(
    `${file} does not validate, so no host uses it: ${settingSentence(read.refusal.message)}`,
    'switchyard config edit',
  )
}
