/**
 * Measures a client command from its start to its end beside `node -e 0`, which is the floor of every Node program.
 *
 * Both are started in turn, a few starts at a time, because Linux counts processor time in hundredths of a second.
 */
import { join } from 'node:path'
import { type BenchResources, waitForSuccess } from '../bench-resources.ts'
import { type Entry, measureInTurn } from '../entry.ts'
import { compareFigure, type Target } from '../figures.ts'
import { endedChildrenMs } from '../process-usage.ts'
import { buildProduct, startHost } from '../served-host.ts'

const STARTS = 10
const AT_MOST: Target = { of: 'ratio', is: 'at most', bound: 1.5 }

export const commandStart: Entry = {
  name: 'command-start',
  about: 'switchyard status --json / node -e 0, processor time and wall',
  async measure(effort, resources) {
    await buildProduct(resources)
    const dataDir = resources.createFolder('command-start')
    const { child } = await startHost(resources, dataDir)
    const program = join(resources.root, 'dist', 'bin', 'switchyard.js')
    const wall: Record<string, number[]> = { ours: [], raw: [] }
    const measure = (name: string, args: readonly string[]) => async (): Promise<number> => {
      const from = { wall: performance.now(), cpu: endedChildrenMs(process.pid) }
      for (let start = 0; start < STARTS; start++) await startOnce(resources, args)
      wall[name]?.push((performance.now() - from.wall) / STARTS)
      return (endedChildrenMs(process.pid) - from.cpu) / STARTS
    }
    const rounds = await measureInTurn(effort.rounds, {
      ours: measure('ours', [program, 'status', '--json', '--data-dir', dataDir]),
      raw: measure('raw', ['-e', '0']),
    })
    await child.stop()
    resources.removeFolder(dataDir)
    // The first round was discarded.
    const walls = rounds.map((_, at) => ({ ours: wall.ours?.[at + 1] ?? 0, raw: wall.raw?.[at + 1] ?? 0 }))
    return [
      compareFigure({ name: 'status --json / node -e 0, cpu', unit: 'ms', target: AT_MOST }, rounds),
      compareFigure({ name: 'status --json / node -e 0, wall', unit: 'ms', target: AT_MOST }, walls),
    ]
  },
}

/** Variables of Node, such as further certificates, would slow both starts and so flatter the ratio. */
async function startOnce(resources: BenchResources, args: readonly string[]): Promise<void> {
  const { PATH, HOME } = process.env
  await waitForSuccess(resources.start(process.execPath, args, { PATH, HOME }), args.join(' '))
}
