/** The folder with the files of a page, which the build makes. */
import { existsSync, realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { EXIT, ExitError } from '../exit.ts'
import type { PageKind } from './page-kinds.ts'

export function pageFolder(name: PageKind['name']): string {
  const program = realpathSync(process.argv[1] ?? '')
  const folder = join(dirname(dirname(program)), 'web', name)
  if (existsSync(join(folder, 'index.html'))) return folder
  throw new ExitError(
    EXIT.unavailable,
    `${folder} has no page; run npm run build, or install this program again`,
  )
}
