/** `npm run man`: writes the manual pages to dist/man, or to the folder that is given. */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { writeManual } from '../bin/cli/help/manual.ts'
import { createProgram } from '../bin/cli/program.ts'
import { VERSION } from '../bin/process/this-program.ts'

const folder = process.argv[2] ?? join('dist', 'man')
// So that the same sources give the same pages, as packagers ask for.
const seconds = Number(process.env.SOURCE_DATE_EPOCH ?? Date.now() / 1000)
const date = new Date(seconds * 1000).toISOString().slice(0, 10)
rmSync(folder, { recursive: true, force: true })
mkdirSync(folder, { recursive: true })
for (const [name, text] of writeManual(createProgram(), { version: VERSION, date }))
  writeFileSync(join(folder, name), text)
