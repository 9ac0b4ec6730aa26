/** Fits paths to patterns with named parts. */

/** The values of `:name` parts where the path fits the pattern, such as `/pulls/:repo/:number`. */
export function matchPath(pattern: string, path: string): Readonly<Record<string, string>> | undefined {
  const wanted = pattern.split('/')
  const parts = path.replace(/(?<=.)\/$/, '').split('/')
  if (wanted.length !== parts.length) return undefined
  const found: Record<string, string> = {}
  for (const [at, part] of parts.entries()) {
    const name = wanted[at] ?? ''
    const value = decoded(part)
    if (value === undefined) return undefined
    if (name.startsWith(':')) found[name.slice(1)] = value
    else if (name !== part) return undefined
  }
  return found
}

function decoded(part: string): string | undefined {
  try {
    return decodeURIComponent(part)
  } catch {
    return undefined
  }
}
