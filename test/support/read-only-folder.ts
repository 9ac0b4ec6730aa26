/** Runs the real command where one folder lies on a read-only file system. */
import { execFile } from 'node:child_process'
import { commandPath } from './command-process.ts'

export interface EndedCommand {
  readonly code: unknown
  readonly out: string
  readonly err: string
}

/** Only the command sees the folder as read-only. */
export function runWithReadOnly(
  folder: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<EndedCommand> {
  const mounts = ['--dev-bind', '/', '/', '--ro-bind', folder, folder]
  const command = [process.execPath, commandPath, ...args]
  return new Promise((resolve) => {
    execFile(
      'bwrap',
      [...mounts, '--', ...command],
      { env: { PATH: process.env.PATH, ...env } },
      (error, out, err) => resolve({ code: error === null ? 0 : error.code, out, err }),
    )
  })
}
