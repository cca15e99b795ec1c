/** The version in core's package.json; a test keeps the two the same. */
export const libraryVersion = '0.1.0';
