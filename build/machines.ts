/**
 * `npm run machines`: draws the charts of docs/machines from the machines, and machines.md with them. With `--check` it
 * writes nothing and fails when a file is out of date.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { CHARTS, drawMachineFiles, MACHINES } from './draw-machines.ts'

const isCheck = process.argv.includes('--check')
const drawn = await drawMachineFiles(readFileSync(MACHINES, 'utf8'))
mkdirSync(CHARTS, { recursive: true })
const gone = readdirSync(CHARTS).filter((name) => !drawn.has(join(CHARTS, name)))
for (const name of gone) if (!isCheck) rmSync(join(CHARTS, name))
for (const [path, text] of drawn) if (!isCheck) writeFileSync(path, text)
const outdated = [...drawn].filter(([path, text]) => isCheck && read(path) !== text).map(([path]) => path)
if (isCheck && outdated.length + gone.length > 0) {
  console.error(`${[...outdated, ...gone].join(', ')}: out of date; run: npm run machines`)
  process.exitCode = 1
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}
