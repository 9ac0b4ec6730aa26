/**
 * `switchyard check-data`: reads a whole data directory and names each record that is damaged.
 *
 * A directory can be read while its host runs, and only `--set-aside` changes it. The command is a program of its own,
 * because the client commands load no database.
 */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { type Damage, RESTORE_CURE } from '../../../core/damage.ts'
import type { Log } from '../../../core/ports/log.ts'
import { quoteWord } from '../../../protocol/quote-word.ts'
import { checkDataDir, type DataCheck, OWN_WORKER } from '../../../store/check-data-dir.ts'
import { lockDataDir } from '../../../store/data-folder.ts'
import { DataDirInUse, NotADataDir } from '../../../store/errors.ts'
import { findOwner } from '../../../store/lock.ts'
import { type SetAside, setAsideDamage } from '../../../store/set-aside.ts'
import { LOST_FILE } from '../../../store/set-aside-folders.ts'
import { realClock, realRandom } from '../../process/clock.ts'
import { resolveDataDir } from '../../process/data-dir.ts'
import { EXIT, ExitError } from '../../process/exit.ts'
import { inDataDir } from '../../process/store-exit-code.ts'
import { type ClientOptions, type CommandContext, runCommand } from '../command/run-command.ts'

interface CheckDataOptions extends ClientOptions {
  readonly setAside?: true | undefined
}

export async function checkData(target: string | undefined, options: CheckDataOptions): Promise<void> {
  const chosen = target === undefined ? resolveDataDir(options.dataDir) : resolve(target)
  await runCommand(options, (context) =>
    inDataDir(chosen, () =>
      options.setAside === true ? setAsideAndPrint(context, chosen) : checkAndPrint(context, chosen),
    ),
  )
}

async function checkAndPrint(context: CommandContext, target: string): Promise<number> {
  const { output, options } = context
  if (hasUserWithOwnId(target)) return runInChild()
  const found = await checkDataDir(target, { random: realRandom })
  const { toSetAside, ...printed } = found
  if (output.format === 'json') output.json({ target, ...printed })
  else printDamage(context, found.damage)
  output.note(summarize(target, found))
  if (found.lost.length > 0)
    output.note(
      `Damaged parts were set aside, and the database lacks ${count(found.lost.length, 'record')}, which ${found.setAside.map((name) => `${name}/${LOST_FILE}`).join(' and ')} names.`,
    )
  const keeping = keepingCure(toSetAside, resolveDataDir(options.dataDir))
  if (found.damage.length > 0) output.note(`What helps: ${RESTORE_CURE}${keeping}`)
  return found.damage.length > 0 ? EXIT.refused : EXIT.done
}

/** The database's library can't tell a process from one of another container with the same id, such as 1. */
function hasUserWithOwnId(target: string): boolean {
  return [target, join(target, OWN_WORKER)].some((dataDir) => findUser(dataDir) === process.pid)
}

const findUser = (dataDir: string): number | undefined =>
  existsSync(dataDir) ? findOwner(dataDir)?.pid : undefined

/** A child has another id. */
function runInChild(): number {
  const args = [...process.execArgv, ...process.argv.slice(1)]
  return spawnSync(process.execPath, args, { stdio: 'inherit' }).status ?? EXIT.broken
}

/** Nothing but a backup helps against what is missing from a database whose pages and rows are whole. */
function keepingCure(toSetAside: readonly string[], chosenDataDir: string): string {
  const command = 'switchyard check-data --set-aside'
  const commands = toSetAside.map((dataDir) =>
    dataDir === chosenDataDir ? command : `${command} --data-dir ${quoteWord(dataDir)}`,
  )
  return commands.length === 0 ? '' : `; without one keep what is intact: ${commands.join(' and ')}`
}

async function setAsideAndPrint(context: CommandContext, dataDir: string): Promise<number> {
  const { output } = context
  if (!existsSync(join(dataDir, 'state', 'data.mdb')))
    throw new NotADataDir(`${dataDir} holds no database; name a data directory`)
  const log = noteWarnings(context)
  const lock = await lockDataDir({ dataDir, clock: realClock, random: realRandom, log }).catch(explainInUse)
  let moved: SetAside | undefined
  try {
    moved = await setAsideDamage(dataDir, realClock)
  } finally {
    lock.release()
  }
  if (moved === undefined) {
    output.note('The pages and rows of the database are whole, so nothing is set aside.')
    return await checkAndPrint(context, dataDir)
  }
  if (output.format === 'json') output.json({ target: dataDir, ...moved })
  else printDamage(context, moved.lost)
  output.note(
    `The database holds the ${count(moved.keptRows, 'row')} that are intact. The damaged one is in ${moved.folder}, and lost.json there names what is lost.`,
  )
  return EXIT.done
}

/** The cures for a second start do not help here. */
function explainInUse(error: unknown): never {
  if (!(error instanceof DataDirInUse)) throw error
  throw new ExitError(
    EXIT.inUse,
    `nothing is set aside while the database may be in use: ${error.where}`,
    'stop that switchyard, wait until it has ended, then run this command again; check-data alone may run beside it',
  )
}

const noteWarnings = ({ output }: CommandContext): Log => ({
  debug: () => {},
  info: () => {},
  warn: (_fields, message) => output.warn(message),
  error: (_fields, message) => output.warn(message),
})

function printDamage({ output }: CommandContext, damage: readonly Damage[]): void {
  const { stdout } = output
  if (output.format === 'id') for (const { id } of damage) output.data(id)
  else if (stdout.isTerminal)
    for (const { message, where } of damage) output.data(stdout.clean(`${message} (${where})`))
  else
    output.table(
      [
        { heading: 'DAMAGE', cell: ({ message }) => message },
        { heading: 'WHERE', cell: ({ where }) => where },
      ],
      damage,
    )
}

function summarize(target: string, { damage, rows, runs, logFiles, isInUse }: DataCheck): string {
  const read = `${count(rows, 'row')}, ${count(runs, 'run')} and ${count(logFiles, 'log')} in files were read`
  const when = isInUse ? ', as they were at one moment, because the directory is in use' : ''
  const result = damage.length === 0 ? 'is whole' : `is damaged in ${count(damage.length, 'place')}`
  return `${target} ${result}: ${read}${when}.`
}

const count = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`
