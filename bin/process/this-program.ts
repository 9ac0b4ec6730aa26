/** The version of this program, and the words by which it was started, for commands that people copy. */
import { basename, delimiter, dirname, isAbsolute, relative } from 'node:path'
import { quoteWord } from '../../protocol/quote-word.ts'

/** The package's version, inserted by the build. */
export const VERSION: string = typeof SWITCHYARD_VERSION === 'string' ? SWITCHYARD_VERSION : '0.0.0-source'

export interface StartFacts {
  /** The file that Node was told to run. */
  readonly file: string
  readonly env: NodeJS.ProcessEnv
  /** The folder in which the command is to be typed; undefined for any. */
  readonly cwd: string | undefined
}

const NAME = 'switchyard'
const BUNDLE = `${NAME}.js`
const PACKAGES = /[\\/]node_modules[\\/]\.bin$/

/** The words for a shell: `switchyard`, `npx switchyard`, `node dist/bin/switchyard.js`. */
export function programWords({ file, env, cwd }: StartFacts): readonly string[] {
  const name = basename(file)
  if (name === BUNDLE) return ['node', quoteWord(nearPath(file, cwd))]
  if (name !== NAME) return [NAME]
  const folder = dirname(file)
  // npm adds this folder to the PATH of what it starts, and not to the one of the person.
  if (PACKAGES.test(folder) && env.npm_command !== undefined) return ['npx', NAME]
  const isOnPath = (env.PATH ?? '').split(delimiter).includes(folder)
  return [isOnPath ? NAME : quoteWord(nearPath(file, cwd))]
}

/** The words by which this process was started. @param cwd as in `StartFacts` */
export function startedAs({ cwd }: Pick<StartFacts, 'cwd'> = { cwd: process.cwd() }): readonly string[] {
  const { argv, env } = process
  return programWords({ file: argv[1] ?? '', env, cwd })
}

/** The path from the person's folder when it lies below, so that a command stays short. */
export function nearPath(path: string, cwd: string | undefined): string {
  if (cwd === undefined) return path
  const near = relative(cwd, path)
  return near === '' || near.startsWith('..') || isAbsolute(near) ? path : near
}
