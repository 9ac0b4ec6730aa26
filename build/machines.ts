/**
 * `npm run machines`: draws machines.md from the machines. With `--check` it writes nothing and fails when the file
 * is out of date.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { daemonKinds } from '../actors/daemon/modules.ts'
import { hostKinds } from '../actors/root/modules.ts'
import { workerSupervisorKind } from '../actors/worker-supervisor/create-worker-supervisor.ts'
import { drawMachines } from './draw-machines.ts'

const FILE = 'machines.md'
const drawn = drawMachines([...hostKinds, ...daemonKinds, workerSupervisorKind].map((kind) => kind.logic))

if (process.argv.includes('--check')) {
  if (readFileSync(FILE, 'utf8') !== drawn) {
    console.error(`${FILE} is out of date; run: npm run machines`)
    process.exitCode = 1
  }
} else {
  writeFileSync(FILE, drawn)
}
