/** The pages of this program: what each is called, and what of the host's interface it reaches. */
import { existsSync, realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { isInterface } from '../../transport/pages/page-sessions.ts'
import { EXIT, ExitError } from '../process/exit.ts'

export interface PageKind {
  /** The folder of the page, and the name of its file in the data directory. */
  readonly name: 'dashboard' | 'inspector'
  /** Prints a new link. */
  readonly command: string
  /** The paths of the host's sockets that it reaches. */
  readonly sockets: readonly string[]
  /** Whether it reaches a path of the host by requests. */
  readonly forwards: (path: string) => boolean
  /** Whether the page is of use only while there is a host. */
  readonly needsHost: boolean
}

export const DASHBOARD_PAGE: PageKind = {
  name: 'dashboard',
  command: 'switchyard dashboard',
  sockets: ['/ws', '/ws/runs/:id/attach'],
  forwards: isInterface,
  needsHost: true,
}

/** The inspector only watches: it asks for the host's health, and everything else comes through its socket. */
export const INSPECTOR_PAGE: PageKind = {
  name: 'inspector',
  command: 'switchyard inspect',
  sockets: ['/ws/inspect'],
  forwards: (path) => path === '/api/health',
  needsHost: true,
}

/** A story is replayed with nothing running. */
export const STORY_PAGE: PageKind = {
  ...INSPECTOR_PAGE,
  sockets: [],
  forwards: () => false,
  needsHost: false,
}

/** The folder with the files of a page, which the build makes. */
export function pageFolder(name: PageKind['name']): string {
  const program = realpathSync(process.argv[1] ?? '')
  const folder = join(dirname(dirname(program)), 'web', name)
  if (existsSync(join(folder, 'index.html'))) return folder
  throw new ExitError(
    EXIT.unavailable,
    `${folder} has no page; run npm run build, or install this program again`,
  )
}
