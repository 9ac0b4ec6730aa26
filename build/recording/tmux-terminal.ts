/** A terminal of tmux, with a server of its own that no other session of this user reaches. */
import { execFile, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import {
  type RecordedTerminal,
  SCROLLBACK_LINES,
  SHELL,
  type TerminalOptions,
  trimLines,
} from './recorded-terminal.ts'

const run = promisify(execFile)

export const isTmuxInstalled = (): boolean => spawnSync('tmux', ['-V']).status === 0

export async function openTmuxTerminal({
  columns,
  rows,
  folder,
  env,
}: TerminalOptions): Promise<RecordedTerminal> {
  const own = mkdtempSync(join(tmpdir(), 'switchyard-tmux-'))
  const config = join(own, 'tmux.conf')
  writeFileSync(config, `set -g status off\nset -g history-limit ${SCROLLBACK_LINES}\n`)
  const tmux = async (...args: string[]) =>
    (await run('tmux', ['-S', join(own, 'socket'), '-f', config, ...args])).stdout
  const variables = Object.entries({ ...env, TERM: 'screen-256color' }).map(
    ([name, value]) => `${name}=${value}`,
  )
  const size = ['-x', String(columns), '-y', String(rows)]
  await tmux('new-session', '-d', ...size, '-c', folder, 'env', '-i', ...variables, ...SHELL)
  return {
    type: async (characters) => {
      const codes = [...Buffer.from(characters)].map((code) => code.toString(16))
      await tmux('send-keys', '-H', ...codes)
    },
    lines: async () => trimLines((await tmux('capture-pane', '-p', '-S', '-')).split('\n')),
    close: async () => {
      await tmux('kill-server')
      rmSync(own, { recursive: true })
    },
  }
}
