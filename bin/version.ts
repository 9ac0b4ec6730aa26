/** The package's version, inserted by the build. */
export const VERSION: string = typeof SWITCHYARD_VERSION === 'string' ? SWITCHYARD_VERSION : '0.0.0-source'
