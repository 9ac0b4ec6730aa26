/**
 * A terminal of tmux, with a server of its own that no other session of this user reaches.
 *
 * The session ends with this process, however this process ends: a client in tmux's control mode hangs on a pipe, and
 * tmux destroys a session without clients.
 */
import { execFile, spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import {
  type RecordedTerminal,
  SCROLLBACK_LINES,
  SHELL,
  type TerminalOptions,
  trimLines,
} from './recorded-terminal.ts'

const run = promisify(execFile)
const ATTACHED_POLL_MS = 20
/** Inside another tmux, tmux would refuse to attach. */
const outside = { ...process.env, TMUX: undefined }

export const isTmuxInstalled = (): boolean => spawnSync('tmux', ['-V']).status === 0

export async function openTmuxTerminal({
  columns,
  rows,
  folder,
  env,
}: TerminalOptions): Promise<RecordedTerminal> {
  const own = mkdtempSync(join(tmpdir(), 'switchyard-tmux-'))
  const [config, socket] = [join(own, 'tmux.conf'), join(own, 'socket')]
  writeFileSync(config, `set -g status off\nset -g history-limit ${SCROLLBACK_LINES}\n`)
  const tmux = async (...args: string[]) =>
    (await run('tmux', ['-S', socket, '-f', config, ...args], { env: outside })).stdout
  const variables = Object.entries({ ...env, TERM: 'screen-256color' }).map(
    ([name, value]) => `${name}=${value}`,
  )
  const size = ['-x', String(columns), '-y', String(rows)]
  await tmux('new-session', '-d', ...size, '-c', folder, 'env', '-i', ...variables, ...SHELL)
  const client = spawn('tmux', ['-C', '-S', socket, 'attach'], {
    stdio: ['pipe', 'ignore', 'ignore'],
    env: outside,
  })
  const ended = new Promise((resolve) => client.on('close', resolve))
  while ((await tmux('list-clients')) === '') {
    if (client.exitCode !== null) throw new Error(`tmux attach ended with ${client.exitCode}`)
    await pause(ATTACHED_POLL_MS)
  }
  await tmux('set', '-g', 'destroy-unattached', 'on')
  return {
    type: async (characters) => {
      const codes = [...Buffer.from(characters)].map((code) => code.toString(16))
      await tmux('send-keys', '-H', ...codes)
    },
    lines: async () => trimLines((await tmux('capture-pane', '-p', '-S', '-')).split('\n')),
    close: async () => {
      await tmux('kill-server')
      await ended
      rmSync(own, { recursive: true })
    },
  }
}
