/** Name of a repository on its code host, `owner/name`: safe in a path, a URL and a shell command. */
const REMOTE = /^(?![.-])[A-Za-z0-9._-]{1,100}\/(?!-|\.{1,2}$)[A-Za-z0-9._-]{1,100}$/

export function isRemote(name: string): boolean {
  return REMOTE.test(name)
}

export function ownerOf(remote: string): string {
  return remote.slice(0, remote.indexOf('/'))
}
