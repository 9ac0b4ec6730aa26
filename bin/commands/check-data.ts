/**
 * `switchyard check-data`: reads a whole data directory and names each record that is damaged.
 *
 * It works while the host runs and without one, and changes nothing. The command is a program of its own, because it
 * reads the database.
 */
import { resolve } from 'node:path'
import { RESTORE_CURE } from '../../core/damage.ts'
import { checkDataDir, type DataCheck } from '../../store/check-data-dir.ts'
import { type ClientOptions, type CommandContext, runCommand } from '../client/run-command.ts'
import { realRandom } from '../clock.ts'
import { resolveDataDir } from '../data-dir.ts'
import { EXIT } from '../exit.ts'
import { inDataDir } from '../store-exit-code.ts'

export async function checkData(target: string | undefined, options: ClientOptions): Promise<void> {
  await runCommand(options, (context) => checkAndPrint(context, chooseTarget(target, options.dataDir)))
}

const chooseTarget = (target: string | undefined, dataDir: string | undefined): string =>
  target === undefined ? resolveDataDir(dataDir) : resolve(target)

async function checkAndPrint({ output }: CommandContext, target: string): Promise<number> {
  const found = await inDataDir(target, () => checkDataDir(target, { random: realRandom }))
  const { damage } = found
  if (output.format === 'json') output.json({ target, ...found })
  else if (output.format === 'id') for (const { id } of damage) output.data(id)
  else if (output.stdout.isTerminal)
    for (const { message, where } of damage) output.data(output.stdout.clean(`${message} (${where})`))
  else
    output.table(
      [
        { heading: 'DAMAGE', cell: ({ message }) => message },
        { heading: 'WHERE', cell: ({ where }) => where },
      ],
      damage,
    )
  output.note(summarize(target, found))
  if (damage.length > 0) output.note(`What helps: ${RESTORE_CURE}`)
  return damage.length > 0 ? EXIT.refused : EXIT.done
}

function summarize(target: string, { damage, rows, runs, logFiles, isInUse }: DataCheck): string {
  const read = `${count(rows, 'row')}, ${count(runs, 'run')} and ${count(logFiles, 'log')} in files were read`
  const when = isInUse ? ', as they were at one moment, because the directory is in use' : ''
  const result = damage.length === 0 ? 'is whole' : `has ${count(damage.length, 'damaged record')}`
  return `${target} ${result}: ${read}${when}.`
}

const count = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`
