/** `switchyard config path` and `config edit`: the file of a host on this machine. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { makeOwnerOnly } from '../../store/data-folder.ts'
import { codeOf } from '../../store/errors.ts'
import type { CommandContext } from '../client/run-command.ts'
import { resolveDataDir } from '../data-dir.ts'
import { EXIT, ExitError } from '../exit.ts'
import { storeExitError } from '../store-exit-code.ts'

/** The exit code of shells. */
const COMMAND_NOT_FOUND = 127
const NOTHING_SET = '{}\n'

export async function path({ output, options }: CommandContext): Promise<void> {
  const file = fileOf(options.dataDir)
  if (output.format === 'json') output.json({ path: file })
  else output.data(file)
}

export async function edit({ output, options }: CommandContext): Promise<void> {
  const file = fileOf(options.dataDir)
  const before = await readOrBegin(file)
  const editor = process.env.VISUAL || process.env.EDITOR || 'vi'
  // An editor may stand there with options, so a shell reads it.
  const child = spawn('/bin/sh', ['-c', `${editor} "$1"`, 'sh', file], { stdio: 'inherit' })
  const [code] = await once(child, 'close')
  if (code === COMMAND_NOT_FOUND)
    throw new ExitError(EXIT.refused, `${editor} is no command here`, 'VISUAL=vi switchyard config edit')
  if (code !== 0) throw new ExitError(EXIT.refused, `the editor ended with ${code ?? 'a signal'}: ${editor}`)
  const after = await readOrBegin(file)
  if (after === before) output.note('Nothing was changed.')
  else {
    checkJson(after, file)
    output.note('A running host uses a valid file after a second, and names a wrong setting in its log.')
    output.next('switchyard config get')
  }
}

/** With an address in the environment the host may be on another machine. */
function fileOf(dataDir: string | undefined): string {
  if ((process.env.SWITCHYARD_URL ?? '') !== '')
    throw new ExitError(
      EXIT.usage,
      'SWITCHYARD_URL names the host, and its file may be on another machine',
      'switchyard config set KEY VALUE, or unset SWITCHYARD_URL',
    )
  return join(resolveDataDir(dataDir), 'config.json')
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

function checkJson(text: string, file: string): void {
  try {
    JSON.parse(text)
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new ExitError(
      EXIT.refused,
      `${file} is no JSON, so the host ignores it: ${why}`,
      'switchyard config edit',
    )
  }
}
